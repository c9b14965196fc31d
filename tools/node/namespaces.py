"""Makes the namespaces and cgroups of a node, and takes them down: `python -I -S namespaces.py PLAN`.

A program of its own, standard library only, started by `tools.node.node` under its supervisor. It makes a cgroup below
its own in each v1 hierarchy, runs `inside.py` there as process 1 of new namespaces, and waits. However it is asked to
end, process 1 is killed: with it the kernel ends every process, mount and interface of the node. Then the cgroups go,
and the folder `data`.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PR_SET_PDEATHSIG = 1
KERNEL_SECONDS = 15.0
"""Time that the kernel may take to free the cgroups of processes that it has killed."""


def main() -> int:
    """Run a node until SIGTERM."""
    plan = json.loads(sys.argv[1])
    groups: list[Path] = []
    child: subprocess.Popen[bytes] | None = None

    def end(*_: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    try:
        for hierarchy, path in hierarchies():
            groups.append(make_group(hierarchy, path, f"firsttoken-node-{os.getpid()}"))
        plan["groups"] = [str(group) for group in groups]
        (Path(plan["state"]) / "groups").write_text("\n".join(plan["groups"]))
        child = subprocess.Popen(
            [
                *("unshare", "--mount", "--net", "--cgroup", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL"),
                *(sys.executable, "-I", "-S", str(Path(__file__).with_name("inside.py")), json.dumps(plan)),
            ],
            preexec_fn=lambda: enter(groups),
        )
        return child.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if child is not None:
            child.kill()  # process 1 follows it: --kill-child
            child.wait()
        for group in groups:
            remove(group)
        shutil.rmtree(Path(plan["state"]) / "data", ignore_errors=True)


def hierarchies() -> list[tuple[str, str]]:
    """The cgroup v1 hierarchies, by the folder of each, and where this process is in it."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    return [(names.removeprefix("name="), path) for _, names, path in lines if names]


def make_group(hierarchy: str, path: str, name: str) -> Path:
    """A new cgroup below the one of this process."""
    group = CGROUPS / hierarchy / path.lstrip("/") / name
    group.mkdir()
    if hierarchy == "cpuset":
        for setting in ("cpuset.cpus", "cpuset.mems"):
            (group / setting).write_text((group.parent / setting).read_text())
    return group


def enter(groups: list[Path]) -> None:
    """Move this process into the cgroups; the kernel ends it with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def remove(group: Path) -> None:
    """Remove a cgroup and those below it; the kernel allows it once their last process is gone."""
    deadline = time.monotonic() + KERNEL_SECONDS
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(folder)
            except OSError as error:
                if time.monotonic() > deadline:
                    print(f"{folder}: {error.strerror}", file=sys.stderr)
                    return
                time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
