"""A real Triton on the CPU: `tritonserver` 2.51 with its Python backend, from one wheel of 55 MB, ready in seconds.

Models are Python files of the caller's. They run in a program of Triton's own that embeds Python, so they see the
standard library, numpy and nothing else.

NB: that program needs the shared library of the Python that runs here, and ignores PYTHONPATH: what it imports lies
beside its own module in the folder of the backend.
"""

from __future__ import annotations

import ctypes.util
import hashlib
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tools.cluster.cache import cached
from tools.cluster.process import Component
from tools.cluster.progress import run_with_progress
from tools.cluster.uv import uv
from tools.engines.server import Server

LOCK = Path(__file__).with_name("triton.txt")
START_SECONDS = 60.0
STUBS = {(3, 11), (3, 12)}
"""Versions of Python that the project runs on and that have both, a backend in the wheel and a numpy before 2."""
LEAST_GLIBC = (2, 35)
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = f"libpython{_VERSION}.so.1.0"
_STUB = "triton_python_backend_stub"


def missing() -> str:
    """Find why no Triton can run on this machine; empty: it can."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return f"its wheel is for Linux on x86-64, this is {sys.platform} on {platform.machine()}"
    library, version = platform.libc_ver()
    if library != "glibc" or tuple(map(int, version.split(".")[:2])) < LEAST_GLIBC:
        return f"its wheel needs glibc {'.'.join(map(str, LEAST_GLIBC))}, this is {library or 'no glibc'} {version}"
    if sys.version_info[:2] not in STUBS:
        return f"its wheel has no backend for Python {_VERSION}"
    if not (_library_folder() / _LIBRARY).exists() and ctypes.util.find_library(f"python{_VERSION}") is None:
        return f"{_LIBRARY} is missing (Debian: apt-get install libpython{_VERSION})"
    return ""


def triton() -> Path:
    """The folder with the server and its backends, as `triton.txt` pins them; fetched once. Raises `SetupError`."""
    key = hashlib.sha256(f"{_VERSION}\n{LOCK.read_text()}\n{Path(__file__).read_text()}".encode()).hexdigest()[:16]
    return cached("triton", key, _install)


class Triton(Server):
    """A server with the models of a folder. `folder` takes its log and its copy of them. `flags`: further ones."""

    def __init__(self, models: Path, folder: Path, flags: Sequence[str] = ()) -> None:
        super().__init__(ports=2)
        self._site, self._folder, self._models, self._flags = triton(), folder, models, flags

    def start(self) -> None:
        """Start it and wait until its models are loaded."""
        server, repository = self._site / "pytriton/tritonserver", self._folder / "models"
        # NB: it writes beside the models.
        shutil.copytree(self._models, repository, dirs_exist_ok=True)
        libraries = [self._site / "nvidia_pytriton.libs", _library_folder()]
        arguments: list[str | Path] = [
            server / "bin/tritonserver",
            f"--model-repository={repository}",
            f"--backend-directory={server / 'backends'}",
            "--http-address=127.0.0.1",
            f"--http-port={self._leases[0].port}",
            f"--metrics-port={self._leases[1].port}",
            "--metrics-config=histogram_latencies=true",
            "--metrics-interval-ms=200",
            "--allow-grpc=false",
            "--allow-gpu-metrics=false",
            *self._flags,
        ]
        environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
        component = Component("triton", arguments, self._folder / "triton.log", env=environment, grace_seconds=0.0)
        self._serve(component, "/v2/health/ready", START_SECONDS)


def _library_folder() -> Path:
    """Folder of the shared library of this Python, where it has one."""
    return Path(str(sysconfig.get_config_var("LIBDIR")))


def _install(out: Path) -> None:
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python", sys.executable]
    run_with_progress("Triton", [uv(), "pip", "install", *options, "--target", out, "-r", LOCK])
    server = out / "pytriton/tritonserver"
    backend, stubs = server / "backends/python", server / "python_backend_stubs"
    shutil.move(stubs / _VERSION / _STUB, backend / _STUB)
    shutil.rmtree(stubs)
    for name in ("numpy", "numpy.libs"):
        (backend / name).symlink_to(Path("../../../..") / name)
