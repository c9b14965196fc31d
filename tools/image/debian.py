"""Debian folders without installing anything on this machine: what plays `python:3.11-slim`, and a machine with tools.

Both are made by mmdebstrap out of Debian's archive into the cache, once. mmdebstrap itself is one Perl program of a
package that is unpacked, not installed. Needs root, apt and the archive; `missing` says what a machine lacks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.cluster import SetupError, cached, run_with_progress

SUITE = "bookworm"
PYTHON_PACKAGES = ("python3.11", "python3.11-venv", "ca-certificates")
"""Packages of the base: what the official image has. The second one holds the pip of `python3 -m venv`."""
MACHINE_PACKAGES = (
    "buildah", "ca-certificates", "containerd", "containernetworking-plugins", "iproute2", "nftables", "runc",
)  # fmt: skip
"""Packages of the machine: what builds images and runs pods."""
OPTIONS = (
    "--variant=minbase",
    "--dpkgopt=force-unsafe-io",
    *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale")),
)
# /usr/local/bin/python3 is where the official image has it.
PYTHON_HOOKS = ('ln -s /usr/bin/python3.11 "$1/usr/local/bin/python3"', 'ln -s python3 "$1/usr/local/bin/python"')
NEEDED = ("apt-get", "dpkg-deb", "perl", "unshare", "nsenter", "chroot")
TRUST = Path("/etc/ssl/certs/ca-certificates.crt")


def missing() -> str:
    """Say why this machine cannot build an image or a node; empty where it can."""
    if os.geteuid() != 0:
        return "needs root"
    if lacking := [name for name in NEEDED if shutil.which(name) is None]:
        return f"needs {', '.join(lacking)}"
    namespaces = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "true"]
    if subprocess.run(namespaces, check=False, capture_output=True).returncode:
        return "needs namespaces of its own (unshare)"
    return ""


def python_base() -> Path:
    """A tar of Debian with Python 3.11, for `FROM python:3.11-slim`."""
    hooks = [f"--customize-hook={hook}" for hook in PYTHON_HOOKS]
    return _debian("python-base", "base.tar", PYTHON_PACKAGES, hooks)


def machine() -> Path:
    """A root folder with buildah, containerd, runc and the CNI plugins. Never written to: mount over it."""
    return _debian("machine", "root", MACHINE_PACKAGES, [])


def in_machine(command: Sequence[str | Path], binds: Sequence[Path], *, cwd: Path, what: str) -> str:
    """Run a command as root in `machine()`, where these paths of this machine are what they are here."""
    bound = [Path("/proc"), Path("/sys"), Path("/dev"), Path("/etc/resolv.conf"), TRUST, *binds]
    with tempfile.TemporaryDirectory(prefix="firsttoken-machine-") as folder:
        root = f"{folder}/root"
        script = [
            # What is written goes to an overlay, so that the cached root stays as it is.
            f"mkdir {root} {folder}/upper {folder}/work",
            f"mount -t overlay -o lowerdir={machine()},upperdir={folder}/upper,workdir={folder}/work machine {root}",
        ]
        for path in bound:
            make = f"mkdir -p {root}{path}" if path.is_dir() else f"mkdir -p {root}{path.parent}; touch {root}{path}"
            script.append(f"{make}; mount --rbind {path.resolve()} {root}{path}")
        script.append(f'exec chroot {root} sh -c \'cd {cwd} && exec "$@"\' sh "$@"')
        # NB: the mounts end with the namespace, and every process with the first one.
        wrapped = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-euc", "\n".join(script), "sh"]
        return run_with_progress(what, [*wrapped, *command])


def _debian(name: str, result: str, packages: Sequence[str], more: Sequence[str]) -> Path:
    options = [*OPTIONS, f"--include={','.join(packages)}", *more, SUITE]
    key = hashlib.sha256(repr(options).encode()).hexdigest()[:16]

    def build(out: Path) -> None:
        if reason := missing():
            raise SetupError(f"Debian packages for {name}: {reason}")
        programs = _mmdebstrap() / "usr/bin"
        path = f"{programs}:{os.environ['PATH']}"
        run_with_progress(f"Debian for {name}", ["mmdebstrap", *options, out / result], env=os.environ | {"PATH": path})

    return cached(name, key, build) / result


def _mmdebstrap() -> Path:
    def build(out: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("lists/partial", "cache/archives/partial"):  # apt refuses to make them
                (Path(folder) / name).mkdir(parents=True)
            lists = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache", "-oAPT::Sandbox::User=root"]
            # Another list of this machine may be out of reach; what counts is whether the download works.
            with suppress(SetupError):
                run_with_progress("lists of packages", ["apt-get", *lists, "--quiet", "update"])
            run_with_progress("mmdebstrap", ["apt-get", *lists, "download", "mmdebstrap"], cwd=Path(folder))
            (package,) = Path(folder).glob("mmdebstrap_*.deb")
            run_with_progress("mmdebstrap's package", ["dpkg-deb", "--extract", package, out])

    return cached("mmdebstrap", SUITE, build)
