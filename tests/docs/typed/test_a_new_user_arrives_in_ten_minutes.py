"""docs/ten-minutes.md, typed as it stands there, from `git clone` to a deployment that was scaled; and timed.

The package caches are warm and the control plane is built, as the page says where it gives times.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_below
from tests.docs.reader import Reader
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = ROOT / "docs/ten-minutes.md"
FIRST_ANSWER, BY_ONE_COMMAND = "## The first answer", "## A cluster by one command"
ANSWER_SECONDS, SCALED_SECONDS = 120, 600
PODS_AT_FIRST = 4


FOREIGN = {"VIRTUAL_ENV", "KUBECONFIG", "PROMETHEUS_URL", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
"""Variables that a developer's shell, or `make test`, has and a newcomer's has not."""


@pytest.mark.timeout(900)
def test_the_first_answer_comes_within_two_minutes_and_a_scaled_deployment_within_ten(tmp_path: Path) -> None:
    started = time.monotonic()
    with newcomer(tmp_path) as first:
        said = first.follow(FIRST_ANSWER, timeout_seconds=ANSWER_SECONDS)
    answered_seconds = time.monotonic() - started
    assert re.search(r"200 requests/s need \d+ replicas", " ".join(said.split()))

    second = newcomer(tmp_path / "firsttoken")
    with held_up(second), second:
        second.follow(BY_ONE_COMMAND, 1)
        wait_until(lambda: ready_pods(second) > PODS_AT_FIRST, SCALED_SECONDS, "more pods are ready", poll_seconds=2)
        scaled_seconds = time.monotonic() - started
        assert "ScaledUp" in second.follow(BY_ONE_COMMAND, 2)
        second.follow(BY_ONE_COMMAND, 3)
    print(f"first answer after {answered_seconds:.0f} s, scaled after {scaled_seconds:.0f} s")

    assert scaled_seconds < SCALED_SECONDS


def newcomer(folder: Path) -> Reader:
    """One without a virtual environment, kubectl, Helm or a cluster of their own."""
    own = Path(sys.executable).parent
    path = ":".join(part for part in os.environ["PATH"].split(":") if Path(part) != own)
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return Reader(PAGE, folder, kept | {"PATH": path, "REPOSITORY": str(ROOT)})


@contextmanager
def held_up(reader: Reader) -> Iterator[None]:
    """Let the page's first terminal hold its cluster, until Ctrl-C."""
    (command,) = blocks_below(PAGE, BY_ONE_COMMAND, "sh")[0].text.splitlines()
    with tempfile.NamedTemporaryFile() as output, subprocess.Popen(
        command.split(), cwd=reader.folder, env=reader.environment, stdout=output, stderr=output, start_new_session=True
    ) as terminal:  # fmt: skip
        said = Path(output.name)
        wait_until(lambda: "until Ctrl-C" in said.read_text() or terminal.poll() is not None, 300, "the cluster is up")
        assert terminal.poll() is None, said.read_text()
        try:
            yield
        finally:
            os.killpg(terminal.pid, signal.SIGINT)
            try:
                terminal.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(terminal.pid, signal.SIGKILL)
                raise
        assert "ending the cluster" in said.read_text()


def ready_pods(reader: Reader) -> int:
    shown = reader.follow(BY_ONE_COMMAND, 2)
    return max((int(ready) for ready in re.findall(r"deployment.apps/support-rag +(\d+)/", shown)), default=0)
