"""Process 1 of a node's namespaces: `python -I -S inside.py PLAN`; see `namespaces.py`.

Mounts a root of its own (Debian's machine, an overlay above it), the paths that the node shares with this machine, and
what a kubelet needs of the kernel; makes the bridge; says that it is ready; then reaps. Standard library only, and
nothing is imported once the old root is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MNT_DETACH = 2
# The kubelet wants these and would write them for the whole machine: it gets files in their place.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main() -> int:
    """Set up, then reap until killed."""
    plan = json.loads(sys.argv[1])
    state = Path(plan["state"])
    # NB: /proc is still the machine's own, so this is the number by which it knows this process.
    pid = os.readlink("/proc/self")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(0))
    root = mount_root(plan, state)
    enter_root(root)
    mount_kernel(plan["groups"], state)
    make_network(plan["name"], plan["address"])
    (state / "pid").write_text(pid)
    (state / "pid").rename(state / "init.pid")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.2)


def run(*command: str | Path) -> None:
    """Run a command that must succeed."""
    subprocess.run([str(part) for part in command], check=True)


def mount_root(plan: dict[str, list[str]], state: Path) -> Path:
    """The machine's root folder below an overlay that takes what is written, and shared paths where they are."""
    root, upper, work = (state / "data" / name for name in ("root", "upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir(parents=True)
    overlay = f"lowerdir={plan['machine']},upperdir={upper},workdir={work}"
    run("mount", "-t", "overlay", "-o", overlay, "node", root)
    for name in ("/dev", *plan["shared"], str(state)):
        target = root / name.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        run("mount", "--rbind", name, target)
        if name in plan["shared"]:
            run("mount", "-o", "remount,bind,ro", target)
    return root


def enter_root(root: Path) -> None:
    """Make it the root of this namespace; the old one is gone."""
    old = root / "old"
    old.mkdir()
    run("pivot_root", root, old)
    os.chdir("/")
    if ctypes.CDLL(None, use_errno=True).umount2(b"/old", MNT_DETACH):
        raise OSError(ctypes.get_errno(), "umount of the old root")
    # The kubelet's mounts have to reach the containers.
    run("mount", "--make-rshared", "/")


def mount_kernel(groups: list[str], state: Path) -> None:
    """Views of the kernel: processes, cgroups from ours on, settings that nothing may write."""
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", "/sys/fs/cgroup")
    # NB: name=systemd too: the kubelet refuses to start where a hierarchy of /proc/self/cgroup is not mounted.
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if names := line.split(":")[1]:
            folder = Path("/sys/fs/cgroup") / names.removeprefix("name=")
            folder.mkdir()
            run(
                "mount", "-t", "cgroup", "-o", f"none,{names}" if names.startswith("name=") else names, "cgroup", folder
            )
    run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for name, value in KERNEL_SETTINGS.items():
        file = state / "data/settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value + "\n")
        run("mount", "--bind", file, f"/proc/sys/{name}")


def make_network(name: str, address: str) -> None:
    """The bridge of the pods, whose address is the node's."""
    run("hostname", name)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "cni0", "type", "bridge")
    run("ip", "address", "add", f"{address}/24", "dev", "cni0")
    run("ip", "link", "set", "cni0", "up")
    run("ip", "route", "add", "default", "via", address)  # leads nowhere; some programs refuse to run without one
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


if __name__ == "__main__":
    sys.exit(main())
