"""Arguments that `size`, `curve`, `simulate` and `replay` share: those that say what is sized."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import Documents, load_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli.flags import FLAGS, declared
from firsttoken_operator.cli.measured import add_benchmarks, read_measured
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import Arrivals, Percentile


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that was read: the custom resources of the file, and the benchmarks of it and of `--benchmarks`."""

    documents: Documents
    benchmarks: tuple[BenchmarkProfile, ...]
    has_pods: bool = True
    """False where everything was said by flags, so that there are no pods yet."""

    def request(
        self, deployment: InferenceDeployment, arrivals: Arrivals | None, percentile: Percentile | None
    ) -> SizingRequest:
        """The sizing question of one of the deployments, with what the command line overrides."""
        return sizing_request(
            deployment,
            self.documents.pools,
            self.benchmarks,
            arrivals=arrivals,
            percentile=percentile,
            has_pods=self.has_pods,
        )


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add `-f`, `--benchmarks` and `--measured`."""
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="FILE",
        help="YAML with InferenceDeployments, and GPUPools and BenchmarkProfiles for them, or a folder of such files;"
        " - reads standard input; may be repeated",
    )
    add_benchmarks(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `-f`, `--benchmarks`, `--measured`, `--arrivals` and `--percentile`."""
    add_files(parser)
    add_word(
        parser,
        "--arrivals",
        Arrivals,
        "users that come independently of each other, or clients that wait for their answers;"
        " default: spec.sizing.arrivals, which is Poisson where it is absent",
    )
    add_word(parser, "--percentile", Percentile, "instead of the percentile of every limit")


def add_word(parser: argparse.ArgumentParser, argument: str, words: type[StrEnum], explanation: str) -> None:
    """Add an argument that is one of a few words, in capitals or not."""

    def word(text: str) -> StrEnum:
        for known in words:
            if known.casefold() == text.casefold():
                return known
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(words)}")

    parser.add_argument(argument, type=word, metavar=f"{{{','.join(words)}}}", help=explanation)


def read(args: argparse.Namespace) -> Sources:
    """Read the files that the arguments name. Raises `InvalidInput` where there is no InferenceDeployment."""
    said = declared(args)
    documents = said or _loaded(args)
    if args.measured is not None and not args.benchmarks:
        raise InvalidInput("--measured", "has no meaning without --benchmarks", "name the files that were measured")
    more = read_measured(args.benchmarks, args.measured) if args.benchmarks else ()
    return Sources(documents, (*documents.benchmarks, *more), has_pods=said is None)


def _loaded(args: argparse.Namespace) -> Documents:
    if args.filename is None:
        in_a_line = hasattr(args, FLAGS[0].field)
        flags = " ".join(f"{flag.name} {flag.metavar}" for flag in FLAGS if flag.required)
        raise InvalidInput(
            "--filename",
            "is missing",
            "name a file: -f FILE" + (f"; or say it in a line: {flags}" if in_a_line else ""),
        )
    for name in args.filename:
        if "://" in name:
            raise InvalidInput("--filename", f"{name} is a URL", f"pipe it in: curl -fsSL {name} | firsttoken ... -f -")
    documents = load_documents(*map(Path, args.filename))
    if not documents.deployments:
        raise InvalidInput("--filename", f"{_files_of(args)} has no InferenceDeployment", "add one")
    return documents


def _files_of(args: argparse.Namespace) -> str:
    """The names after `-f`, as a refusal says them."""
    return ", ".join(args.filename)


def only_one(args: argparse.Namespace, deployments: Sequence[InferenceDeployment], argument: str) -> None:
    """Refuse files with more than one deployment, where an argument is for one."""
    if len(deployments) > 1:
        raise InvalidInput(
            argument, f"{_files_of(args)} has {len(deployments)} InferenceDeployments", "name a file with one of them"
        )


def title(deployment: InferenceDeployment) -> str:
    """Name of a deployment in tables and pictures."""
    return deployment.metadata.title


def tell_if_slow(less: str, seconds: float = 0.0) -> None:
    """Say on stderr that a simulation will be slow, which argument makes `less` of it, and the time where it is long.

    `seconds`: roughly what it takes in plain Python, where that is known beforehand.
    """
    # NB: imported here, because it imports numba where that is installed, which takes longer than a refusal should.
    from firsttoken_sizing.simulation.compiled import IS_COMPILED

    if not IS_COMPILED:
        time = f", about {math.ceil(seconds / 60)} minutes" if seconds > 60 else ""
        print(
            f"firsttoken: numba is not installed, so this runs in plain Python{time}, hundreds of times as long;"
            f" pip install 'firsttoken[simulation]', or use a smaller {less}",
            file=sys.stderr,
            flush=True,
        )


def check_number(argument: str, value: float | None, most: float = math.inf, *, or_zero: bool = False) -> None:
    """Refuse a number that is not above 0 (with `or_zero`: below 0), not finite, or above `most`; None: not given."""
    if value is None or (math.isfinite(value) and value <= most and (value > 0 or (or_zero and value == 0))):
        return
    lower, upper = "of 0 or more" if or_zero else "above 0", "" if most == math.inf else f", at most {most:g}"
    raise InvalidInput(argument, f"{value:g} is out of range", f"use a number {lower}{upper}")


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes."""
    if seed < 0:
        raise InvalidInput("--seed", f"{seed} is negative", "use 0 or more")
