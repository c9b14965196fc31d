"""The `firsttoken` command: finds the subcommand, runs it, and turns errors into one line and an exit status.

A subcommand is a module of this package with `configure(parser)`, which adds its arguments, and `run(args) -> int`, and
one line in `COMMANDS`. Only the module of the command that was asked for is imported, so `--help` is quick and a laptop
without Kubernetes packages can size. Exit status: 0 done; 2 bad input (one line names the field and the fix); anything
else is the subcommand's own.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

BAD_INPUT = 2
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: the module of this package that has it, and its line in `--help`."""

    module: str
    help: str


COMMANDS = {
    "size": Command("size", "size a deployment offline: replicas, GPUs, servers, latency and cost"),
    "plan": Command("plan", "a folder of deployments against pools over a week: fits or not, who is short, cost"),
    "curve": Command("curve", "latency against throughput of every configuration; models side by side"),
    "import": Command("import_", "benchmark results to BenchmarkProfile YAML"),
    "models": Command("listing", "models that can be named, with what is known of them"),
    "gpus": Command("listing", "GPUs that can be named, with what is known of them"),
    "warm": Command("warm", "what keeps spec.warmGPUs of a GPUPool ready, as YAML for kubectl apply"),
    "traffic": Command("traffic", "from calls a year, people and words to spec.traffic"),
    "simulate": Command("simulate", "discrete-event simulation of one replica or a fleet, with the batch over time"),
    "replay": Command("replay", "recorded traffic against scaling policies: SLA attainment and GPU-hours of each"),
    "emulate": Command("emulate", "an engine, or a fleet of them, without GPUs: real metrics, computed latencies"),
    "explain": Command("explain", "why a deployment of a cluster has its replicas, and what would change that"),
    "top": Command("top", "the deployments of a cluster: load, replicas, TTFT, GPUs, and why"),
    "operator": Command("operator", "run the operator"),
    "completion": Command("completion", "a script with which bash, zsh or fish completes commands, options and names"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            status = _run(arguments)
        except SystemExit as stop:  # argparse: --help, --version, or an argument that it refused
            status = stop.code if isinstance(stop.code, int) else BAD_INPUT
        # NB: that the disk is full is found when the last of the answer is written.
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        # Python flushes stdout once more on its way out, so give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # NB: where the reader (`| head`) has left there is nothing to tell.
        if error.errno != errno.EPIPE:
            print(f"{_program()}: the answer cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    command = COMMANDS.get(name) if name is not None else None
    if command is None and name is not None and (near := _near(name)):
        return _refuse(f"no command {name!r}; did you mean {near}?")
    try:
        module = None if command is None else _module(command)
        parser, subparsers = _parser(_program())
        if module is not None and name is not None:
            module.configure(subparsers[name])
        args = parser.parse_args(arguments)
        if module is None:
            parser.print_help(sys.stderr)
            return BAD_INPUT
        status: int = module.run(args)
        return status
    except ModuleNotFoundError as error:
        if (problem := _missing_package(str(name), error)) is None:
            raise
        return _refuse(problem)
    except Exception as error:
        # NB: imported late, an error is the only time these are needed.
        from firsttoken_operator.api.errors import ApiError
        from firsttoken_sizing.errors import SizingError

        if not isinstance(error, SizingError | ApiError):
            raise
        return _refuse(str(error))


class _Parser(argparse.ArgumentParser):
    """A parser whose refusal is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _ShowVersion(argparse.Action):
    """Looks the version up only when asked: reading package metadata takes longer than everything else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"firsttoken {version('firsttoken')}")
        parser.exit(0)


def whole_parser(program: str) -> argparse.ArgumentParser:
    """The command line with the arguments of every subcommand, under the name of this program."""
    parser, subparsers = _parser(program)
    for name, command in COMMANDS.items():
        _module(command).configure(subparsers[name])
    return parser


def _module(command: Command) -> ModuleType:
    return importlib.import_module(f"{__name__}.{command.module}")


def _parser(program: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = _Parser(prog=program, description="The fewest GPUs that still answer on time.")
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    return parser, {
        name: commands.add_parser(name, help=command.help, description=f"{command.help[:1].upper()}{command.help[1:]}.")
        for name, command in COMMANDS.items()
    }


def _program() -> str:
    """`kubectl firsttoken` where kubectl runs this as its plugin, so that usage lines can be pasted."""
    return "kubectl firsttoken" if os.path.basename(sys.argv[0]).startswith("kubectl-") else "firsttoken"


def _near(name: str) -> str | None:
    """The command that a mistyped one most likely is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, COMMANDS, n=1, cutoff=0.7)), None)


def _refuse(problem: str) -> int:
    print(f"{_program()}: {' '.join(problem.split())}", file=sys.stderr)
    return BAD_INPUT


def _missing_package(command: str, error: ModuleNotFoundError) -> str | None:
    """Extra to install for a package that is not there; None where the missing module is one of our own."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "firsttoken_operator", "firsttoken_sizing"):
        return None
    extra = _extra_with(package)
    wanted = f"firsttoken[{extra}]" if extra else "firsttoken"
    return f"firsttoken {command} needs: pip install '{wanted}' (the package {package} is not installed)"


def _extra_with(package: str) -> str | None:
    """The extra of this distribution that brings a package, from its own metadata; None for a core dependency."""
    import re
    from importlib.metadata import requires

    for requirement in requires("firsttoken") or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].replace("-", "_").lower()
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", requirement)
        if name == package.lower() and extra is not None:
            return extra[1]
    return None
