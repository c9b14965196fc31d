"""Runs the commands of `console` blocks and compares, or writes, what they print.

A block is a shell session: lines with `$ ` are commands, the lines below each are its output (stdout and stderr). A
line of only `...` stands for any number of lines. Commands of one page run in one folder that holds the examples, the
benchmark fixtures and the page's named YAML blocks; `echo $?` sees the status of the command before it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Block, save_files

ELLIPSIS = "..."
COLUMNS = "100"
LINKED = ("examples", "tests")
_MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a session and the output lines that are shown below it."""

    line: str
    shown: tuple[str, ...]


def commands(block: Block) -> list[Command]:
    """The session of a block. Raises `ValueError` for output above the first command."""
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ()))
        elif found:
            found[-1] = Command(found[-1].line, (*found[-1].shown, line.rstrip()))
        else:
            raise ValueError(f"{block.name}: output without a command")
    return found


def prepare(page: Path, folder: Path) -> None:
    """Make the folder in which the commands of a page run."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    save_files(page, folder)


def run(session: list[Command], folder: Path) -> list[tuple[str, ...]]:
    """Run a session in a prepared folder; the output lines of each command."""
    script = "".join(f"{c.line}\nstatus=$?; echo '{_MARK}'; (exit $status)\n" for c in session)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": COLUMNS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    outputs = done.stdout.split(f"{_MARK}\n")[: len(session)]
    return [tuple(line.rstrip() for line in output.rstrip("\n").splitlines()) for output in outputs]


def matches(shown: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Tell whether the shown lines are the printed ones, with at most one `...` in place of some."""
    if ELLIPSIS not in shown:
        return shown == printed
    place = shown.index(ELLIPSIS)
    head, tail = shown[:place], shown[place + 1 :]
    fits = len(printed) >= len(head) + len(tail)
    return fits and printed[:place] == head and printed[len(printed) - len(tail) :] == tail


def renewed(shown: tuple[str, ...], printed: tuple[str, ...]) -> tuple[str, ...]:
    """Lines to show instead: the printed ones, with a `...` where one was, as many lines before and after it."""
    if ELLIPSIS not in shown:
        return printed
    place = shown.index(ELLIPSIS)
    tail = len(shown) - place - 1
    return (*printed[:place], ELLIPSIS, *printed[len(printed) - tail :])
