"""Builds the Dockerfile of users with buildah, on a base out of Debian packages: `python -m tools.image`.

The layers up to the packages of uv.lock are kept in the cache, in a store of buildah's own; beside it, for a day, what
was built.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.cluster import cache_root, cached
from tools.image.debian import TRUST, in_machine, python_base
from tools.release import project_version

REPOSITORY = Path(__file__).parents[2]
KEPT_SECONDS = 24 * 3600
# The machine's certificate authorities, where a proxy has its own: mounted while building, never in the image.
SETTINGS = {"pip.conf": f"[global]\ncert = {TRUST}\n", "uv.toml": "system-certs = true\n"}
SETTINGS_AT = {"pip.conf": "/etc/pip.conf", "uv.toml": "/etc/uv/uv.toml"}


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: its name, a Docker archive of it, and its files in a folder."""

    name: str
    archive: Path
    root: Path

    @property
    def config(self) -> dict[str, Any]:
        """User, environment, command and labels."""
        with tarfile.open(self.archive) as archive:
            found: dict[str, Any] = _json(archive, _json(archive, "manifest.json")[0]["Config"])["config"]
        return found

    @property
    def layer_megabytes(self) -> list[float]:
        """Sizes of its layers, the lowest first."""
        with tarfile.open(self.archive) as archive:
            return [archive.getmember(name).size / 1e6 for name in _json(archive, "manifest.json")[0]["Layers"]]


def image() -> Image:
    """The image of this checkout, built where the cache has none for these files. Raises `SetupError`."""
    version, revision = project_version(REPOSITORY), _revision()
    name = f"localhost/firsttoken:{version}"
    digest = hashlib.sha256(f"{name} {revision}".encode())
    for path in _context():
        digest.update(f"{path.relative_to(REPOSITORY)}\0".encode() + path.read_bytes())

    def build(out: Path) -> None:
        _build(out, name, version, revision)

    entry = cached("image", digest.hexdigest()[:16], build)
    entry.touch()
    _forget_old(entry.parent)
    return Image(name, entry / "image.tar", entry / "root")


def _revision() -> str:
    """The commit of this checkout, as far as it is one; what is not committed shows."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip() or "unknown"


def _context() -> Iterator[Path]:
    """The files that the Dockerfile may copy, and itself."""
    kept = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in ["Dockerfile", *kept]:
        top = REPOSITORY / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _build(out: Path, name: str, version: str, revision: str) -> None:
    base = python_base()
    store = cache_root() / "buildah" / base.parent.name
    store.mkdir(parents=True, exist_ok=True)
    with (store / ".lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="firsttoken-image-") as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        context = Path(folder)
        for path in _context():
            target = context / "source" / path.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        for file, text in SETTINGS.items():
            (context / file).write_text(text)
        shutil.copy2(base, context / "base.tar")
        (context / "Dockerfile").write_text(
            'FROM scratch\nADD base.tar /\nENV PATH=/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8\nCMD ["python3"]\n'
        )
        script = _script(store, context, out, name, version, revision)
        in_machine(["sh", "-euc", script], [store, context, out], cwd=context, what=f"image {name}")
    _unpack(out / "image.tar", out / "root")


def _script(store: Path, context: Path, out: Path, name: str, version: str, revision: str) -> str:
    b = f"buildah --root {store}/root --runroot {context}/run --storage-driver overlay"
    mounts = " ".join(f"-v {context}/{file}:{at}:ro" for file, at in SETTINGS_AT.items())
    bud = (
        f"{b} bud --isolation chroot --network host --pull-never --layers -v {TRUST}:{TRUST}:ro {mounts}"
        f" --build-arg VERSION={version} --build-arg REVISION={revision}"
    )
    return f"""
    {b} images --quiet localhost/python:3.11-slim > /dev/null 2>&1 \
      || {b} bud --isolation chroot --quiet --layers=false -t localhost/python:3.11-slim .
    {bud} --target packages -t localhost/packages source
    {bud} --target base -t localhost/base source
    {bud} -t {name} source
    {b} push --quiet {name} docker-archive:{out}/image.tar:{name}
    {b} rmi {name}
    {b} rmi --prune --force
    """


def _unpack(archive: Path, root: Path) -> None:
    root.mkdir()
    with tarfile.open(archive) as image:
        layers = _json(image, "manifest.json")[0]["Layers"]
    for layer in layers:
        # NB: tar itself: it keeps owners and links as they are, on every version of Python.
        subprocess.run(["sh", "-c", 'tar -xf "$0" -O "$1" | tar -x -C "$2"', archive, layer, root], check=True)


def _json(archive: tarfile.TarFile, path: str) -> Any:
    file = archive.extractfile(path)
    assert file is not None, path
    return json.load(file)


def _forget_old(folder: Path) -> None:
    for entry in folder.iterdir():
        if not entry.name.startswith(".") and time.time() - entry.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
