"""A program that cannot outlive the process that started it.

Each program runs under its own small supervisor (`supervisor.py`), which holds the read end of a pipe from here. It
knows nothing of Kubernetes: the tests use it for the operator and the emulated fleet as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class ComponentFailedError(RuntimeError):
    """A program could not be started or ended while it was needed; the message carries the end of its log."""


class Component:
    """One running program with its log; ends with `stop`, and at the latest when this process ends.

    `grace_seconds` is how long the program may take to end after SIGTERM before it is killed. Raises
    `ComponentFailedError` where the program cannot be executed.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace_seconds: float = 2.0,
    ) -> None:
        self.name, self.log = name, log
        command = [sys.executable, "-I", "-S", str(SUPERVISOR), str(os.getpid()), str(grace_seconds), *map(str, argv)]
        with log.open("ab") as log_file:
            self._supervisor = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                env=env,
                cwd=cwd,
                start_new_session=True,  # a Ctrl-C at the terminal is the harness's to handle, not the program's
            )
        assert self._supervisor.stdout is not None
        with self._supervisor.stdout as report:
            answer = report.readline().decode().strip()
        if not answer.isdecimal():
            self.stop()
            raise ComponentFailedError(f"{name}: {answer or 'its supervisor did not start'}")
        self.pid = int(answer)

    @property
    def running(self) -> bool:
        """True while the program is still there."""
        return self._supervisor.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the program itself, for tests that kill or freeze it; no error where it has ended."""
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_seconds: float) -> int:
        """Wait for the program to end by itself and return its exit code (128 + n for signal n).

        Raises `subprocess.TimeoutExpired`.
        """
        return self._supervisor.wait(timeout_seconds)

    def begin_stop(self) -> None:
        """Ask the program to end without waiting, so that several can end at once."""
        if self._supervisor.stdin is not None:
            with suppress(BrokenPipeError):
                self._supervisor.stdin.close()

    def stop(self) -> int:
        """End the program and wait until it is gone; returns its exit code. Harmless when repeated."""
        self.begin_stop()
        return self._supervisor.wait()

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def require_running(self) -> None:
        """Raise `ComponentFailedError` with the end of the log unless the program runs."""
        if not self.running:
            code = self._supervisor.returncode
            raise ComponentFailedError(f"{self.name} ended with code {code}; {self.log}:\n{self.log_tail()}")
