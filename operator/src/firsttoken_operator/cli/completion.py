"""`firsttoken completion`: the script with which a shell completes commands, options, files, models and GPUs.

It is for the program by whose name it was asked, so `kubectl-firsttoken completion bash` makes another one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from firsttoken_operator.cli.output import add_file, emit, local_file

SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken completion`."""
    parser.add_argument("shell", choices=SHELLS, help="whose script")
    add_file(parser)


def run(args: argparse.Namespace) -> int:
    """Write the script."""
    emit(script(args.shell, Path(sys.argv[0]).name).encode(), args.out)
    return 0


def script(shell: str, called: str) -> str:
    """Make the script for a program that was called like this; any other name stands for `firsttoken`."""
    # NB: imported here: the catalog and every subcommand take longer to import than `--help` may.
    import shtab

    from firsttoken_operator.cli import whole_parser
    from firsttoken_sizing.catalog import gpus, models

    names = {"--model": [model.name for model in models()], "--gpu": [gpu.name for gpu in gpus()]}
    parser = whole_parser(called if called.startswith("kubectl-") else "firsttoken")
    for action in _actions(parser):
        for option in action.option_strings:
            action.choices = names.get(option, action.choices)
        if isinstance(action.metavar, str) and action.metavar.startswith("{"):
            action.choices = action.metavar[1:-1].split(",")
        if action.type is local_file or action.dest == "kubeconfig" or "FILE" in (action.metavar or ""):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell=shell)
    return text + "\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Actions of a parser and of its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)
        else:
            yield action
