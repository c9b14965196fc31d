"""Running a long command so that its user sees that it lives, and sees why when it fails.

A line when the command starts, one every few seconds while it runs, one when it ends; the command's own output is kept
back and shown only where it fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TICK_SECONDS = 5.0
"""The longest wait without a line."""
SHOWN_LINES = 20


class SetupError(RuntimeError):
    """Something the tests and the demo need is missing or could not be made; the message is one clear line first."""


def run_with_progress(
    what: str, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run `command` and report on standard error under the name `what`; returns its standard output.

    Raises `SetupError` with the end of its output where it cannot be started or does not exit 0.
    """
    with under_way(what), tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=env,
                cwd=cwd,
            )
        except OSError as error:
            raise SetupError(f"{what}: {command[0]}: {error.strerror}") from error
        with process:
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                raise
        output.seek(0)
        printed = output.read().decode(errors="replace")
        if code != 0:
            errors.seek(0)
            lines = [*printed.splitlines(), *errors.read().decode(errors="replace").splitlines()][-SHOWN_LINES:]
            raise SetupError(f"{what}: {command[0]} exited with code {code}\n" + "\n".join(lines))
    return printed


@contextmanager
def under_way(what: str) -> Iterator[None]:
    """Report that `what` begins, every few seconds that it goes on, and how long it took unless it failed."""
    started, over = time.monotonic(), threading.Event()

    def tell() -> None:
        while not over.wait(TICK_SECONDS):
            report(f"  {what}: {time.monotonic() - started:.0f} s so far")

    report(f"{what} ...")
    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()
    report(f"  {what}: done in {time.monotonic() - started:.1f} s")


def exit_status(make: Callable[[], None]) -> int:
    """0 where `make` made what it makes; 1 where it could not, which is said in one line on standard error."""
    try:
        make()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def report(line: str) -> None:
    """One line of progress, seen at once also through a pipe."""
    print(line, file=sys.stderr, flush=True)
