"""Output of a command's answer: its format and file as arguments, and the writing of bytes and of tables."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firsttoken_sizing.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType


def local_file(text: str) -> Path:
    """Read the argument that names a file or folder of this machine: a path would fold the slashes of a URL."""
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text} is a URL; download it first: curl -fsSLO {text}")
    return Path(text)


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = ("table", "json", "html")) -> None:
    """Add `-o` and `--out`."""
    parser.add_argument("-o", "--output", choices=formats, default="table", help="format of the answer; default: table")
    add_file(parser)


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add `--out`."""
    parser.add_argument(
        "--out", type=local_file, metavar="FILE", help="where the output goes; default: standard output"
    )


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as kubectl prints a list: one line each, none is folded or cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def emit(content: bytes, file: Path | None) -> None:
    """Write an answer to the file of `--out`, or to standard output."""
    if file is not None:
        write(content, file, "--out")
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


def emit_tables(tables: Iterable[RenderableType], file: Path | None) -> None:
    """Write tables likewise; on a terminal they have its width and its colors."""
    from rich.console import Console

    text = io.StringIO() if file is not None else None
    console = Console(file=text)
    for table in tables:
        console.print(table)
    if text is not None:
        emit(text.getvalue().encode(), file)


def write(content: bytes, file: Path, argument: str) -> None:
    """Write a result. Raises `InvalidInput` that names the argument where that is not possible."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InvalidInput(argument, f"{file}: {error.strerror}", "name a file that can be written") from error
