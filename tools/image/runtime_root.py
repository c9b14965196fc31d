"""Copies what a virtual environment needs at run time, and nothing else, into a new root.

Run by the Dockerfile, for a layer of packages and for the project above it, with the environment's own Python;
standard library only. Nothing in it depends on the processor or the base: shared libraries are what `ldd` names, Python
is where it says it is.

Byte code is made for what the operator imports, as its root file system is read-only: it starts in half the time. The
Kubernetes client is 75 MB of generated source, three quarters of it comments: it stays as byte code only.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

IMPORTED = {
    "packages": "kopf, numpy, pydantic, aiohttp.web, prometheus_client, prometheus_api_client.prometheus_connect, yaml",
    "project": "firsttoken_operator.cli.operator, firsttoken_operator.run.process, firsttoken_lab.emulate.service",
}
"""Modules that are imported to see which ones need byte code, in each of the two layers."""
PROJECT = ("bin/firsttoken", "bin/kubectl-firsttoken", "lib/python3*/site-packages/firsttoken*")
BYTE_CODE_ONLY = "kubernetes"
UNUSED_PARTS = {
    "__pycache__",
    "tests",
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "pydoc_data",
}
UNUSED_NAMES = re.compile(r"config-3\..*|.*\.(a|pyi|pxd|h|exe)|pip|pip-.*|setuptools.*|dist-packages")
SYSTEM_FILES = (
    "etc/ssl/certs/ca-certificates.crt", "etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d", "etc/os-release",
    "etc/mime.types", "usr/lib/os-release",
)  # fmt: skip
LOADED_BY_NAME = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2", "libgcc_s.so.1")
"""Libraries that the C library opens by itself: host names, and the end of a thread."""
USER = "nonroot:x:65532:"


def main(layer: str, root: Path, *below: Path) -> int:
    """Fill `root`, which must not exist, with one of the two layers; `below` are the roots that it will lie on."""
    root.mkdir()
    environment = Path(sys.prefix)
    if layer == "packages":
        copy_tree(Path(sysconfig.get_path("stdlib")), root)
        copy_tree(environment, root)
        for program in (root / environment.relative_to("/") / "bin").iterdir():
            if not program.name.startswith("python"):
                program.unlink()
        copy(environment / "bin/python", root)
        copy(Path(sys._base_executable), root)  # type: ignore[attr-defined]
        programs = [Path(sys.executable).resolve(), *shared_objects(root)]
        for library in {*libraries(programs), *libraries_by_name(LOADED_BY_NAME)}:
            copy(library, root)
        write_system_files(root)
        compile_only(next((root / environment.relative_to("/")).glob("lib/python3*/site-packages")) / BYTE_CODE_ONLY)
    else:
        for pattern in PROJECT:
            for path in environment.glob(pattern):
                (copy_tree if path.is_dir() else copy)(path, root)
    compile_imported(layer, root, below)
    return 0


def copy_tree(folder: Path, root: Path) -> None:
    """Copy a folder without what is never used at run time."""

    def unused(_: str, names: list[str]) -> set[str]:
        return {name for name in names if name in UNUSED_PARTS or UNUSED_NAMES.fullmatch(name)}

    shutil.copytree(folder, root / folder.relative_to("/"), symlinks=True, ignore=unused, dirs_exist_ok=True)


def copy(path: Path, root: Path) -> None:
    """Copy a file to where it is, with each link on the way to it, those of its folders too (/lib to /usr/lib)."""
    at = Path("/")
    for part in path.parts[1:]:
        at = at / part
        target = root / at.relative_to("/")
        if at.is_symlink():
            link = os.readlink(at)
            if not target.is_symlink():
                target.symlink_to(link)
            rest = path.relative_to(at)
            copy(Path(os.path.normpath(at.parent / link)) / rest, root)
            return
        if at.is_dir():
            target.mkdir(exist_ok=True)
        elif not target.exists():
            shutil.copy2(at, target)


def shared_objects(root: Path) -> Iterator[Path]:
    """Extension modules under `root`, and libraries beside them."""
    return (path for path in root.rglob("*.so*") if not path.is_symlink() and path.is_file())


def libraries(programs: Iterable[Path]) -> set[Path]:
    """The libraries of the system that these need, by `ldd`."""
    found = subprocess.run(["ldd", *map(str, programs)], check=False, capture_output=True, text=True).stdout
    paths = re.findall(r"(?:=> |^\s+)(/\S+) \(0x", found, re.MULTILINE)
    return {Path(path) for path in paths if "site-packages" not in path}


def libraries_by_name(names: Iterable[str]) -> set[Path]:
    """Look these up in the linker's cache."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    return {Path(match[1]) for name in names if (match := re.search(rf"\s{re.escape(name)} .*=> (\S+)", cache))}


def write_system_files(root: Path) -> None:
    """Names of users and hosts, certificate authorities, folders that are mounted over."""
    for name in SYSTEM_FILES:
        source = Path("/") / name
        if source.is_dir():
            copy_tree(source, root)
        elif source.exists():
            copy(source, root)
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/root:/sbin/nologin\n{USER}65532:nonroot:/tmp:/sbin/nologin\n")
    (root / "etc/group").write_text(f"root:x:0:\n{USER}\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for name in ("dev", "proc", "sys", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def compile_imported(layer: str, root: Path, below: Iterable[Path]) -> None:
    """Write byte code of the modules that are imported and have none below.

    It is taken without a look at the source's time, which builders and registries may change.
    """
    code = (
        f"import sys, {IMPORTED[layer]}\nprint(*(getattr(m, '__file__', '') for m in sys.modules.values()), sep='\\n')"
    )
    command = [sys.executable, "-B", "-c", code]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    for module in modules:
        if module.endswith(".py") and f"/site-packages/{BYTE_CODE_ONLY}/" not in module:
            cache = importlib.util.cache_from_source(module).lstrip("/")
            if any((other / cache).exists() for other in below):
                continue
            target = root / cache
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(module, cfile=str(target), dfile=module, doraise=True, invalidation_mode=mode)


def compile_only(package: Path) -> None:
    """Leave of a package its byte code alone, without comments."""
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    done = compileall.compile_dir(str(package), quiet=1, legacy=True, optimize=2, stripdir=str(package.parents[4]))
    if not done:
        raise SystemExit(f"{package}: not compiled")
    for source in package.rglob("*.py"):
        source.unlink()
    for cache in package.rglob("__pycache__"):
        shutil.rmtree(cache)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:])))
