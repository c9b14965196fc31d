"""A reader who types the commands of a page, as they stand there, into a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.docs.pages import blocks_below
from tools.cluster import kubectl, wait_until

_MARK = b"\x1e"


def equipped(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment with Helm, kubectl and the firsttoken of this checkout on PATH."""
    programs = f"{kubectl().parent}:{Path(sys.executable).parent}"
    return dict(environment) | {"PATH": f"{programs}:{environment['PATH']}"}


class Reader:
    """One who follows `page` in a shell of `folder`. What was started there ends with the block."""

    def __init__(
        self, page: Path, folder: Path, environment: Mapping[str, str], *, shell: Sequence[str | Path] = ("bash",)
    ) -> None:
        """`shell`: how a bash is started, where that is not here."""
        self.page, self.folder, self.environment = page, folder, dict(environment)
        self._command = [*shell, "-e", "-o", "pipefail"]

    def __enter__(self) -> Self:
        self._output = tempfile.NamedTemporaryFile()
        self._shell = subprocess.Popen(
            self._command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
        self._output.close()

    def follow(self, heading: str, number: int = 0, *, timeout_seconds: float = 120.0) -> str:
        """Type a shell block below a heading, by its place; returns what it printed. Fails where one command does."""
        block = blocks_below(self.page, heading, "sh")[number]
        begin = len(self._printed())
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{block.text}\nprintf '\\x1e'\n".encode())
        self._shell.stdin.flush()

        def done() -> bool:
            return self._printed()[begin:].endswith(_MARK) or self._shell.poll() is not None

        wait_until(done, timeout_seconds, block.name)
        printed = self._printed()[begin:].decode()
        assert printed.endswith(_MARK.decode()), f"{block.name}:\n{block.text}\n{printed}"
        return printed[:-1]

    def _printed(self) -> bytes:
        return Path(self._output.name).read_bytes()
