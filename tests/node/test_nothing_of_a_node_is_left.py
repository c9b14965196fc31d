"""However the process that started a node ends, nothing of the node outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.cluster import wait_until
from tools.image.build import REPOSITORY
from tools.node.node import missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no node runs here: {missing()}"),
]

LONGEST_SECONDS = 10
"""It takes about 3."""

HOLDS_A_NODE = """
import sys, time
from tools.node.node import Node
with Node(images=[]) as node:
    print(node.folder, flush=True)
    {then}
"""


@pytest.fixture
def host() -> dict[str, str]:
    """Settings of the machine that a kubelet would change, and its interfaces."""
    return settings()


def settings() -> dict[str, str]:
    names = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
    interfaces = ",".join(sorted(os.listdir("/sys/class/net")))
    return {name: (Path("/proc/sys") / name).read_text() for name in names} | {"interfaces": interfaces}


@pytest.mark.parametrize(
    ("number", "then"),
    [
        pytest.param(signal.SIGKILL, "time.sleep(600)", id="killed"),
        pytest.param(signal.SIGINT, "time.sleep(600)", id="Ctrl-C"),
        pytest.param(None, "raise RuntimeError('failed')", id="failed"),
    ],
)
def test_processes_mounts_and_cgroups_end_with_it(host: dict[str, str], number: int | None, then: str) -> None:
    command = [sys.executable, "-c", HOLDS_A_NODE.format(then=then)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().decode().strip())
        groups = [Path(line) for line in (folder / "groups").read_text().splitlines()]
        during = settings()
        if number is not None:
            assert all(group.exists() for group in groups)
            holder.send_signal(number)
    started = time.monotonic()
    wait_until(lambda: not list(left(folder, groups)), LONGEST_SECONDS, "nothing is left")
    print(f"nothing is left after {time.monotonic() - started:.1f} s")

    assert during == host == settings()


def left(folder: Path, groups: list[Path]) -> Iterator[str]:
    """List what is still there of a node."""
    yield from (str(group) for group in groups if group.exists())
    yield from (line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line)
    if (folder / "data").exists():
        yield "data"
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in command:
                yield command
