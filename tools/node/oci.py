"""Writes OCI archives of single programs: images of one layer, without a builder."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(archive: Path, name: str, program: Path, *, entrypoint: Sequence[str], user: str) -> Path:
    """An image `name` with one program at `/bin/<its name>`, and nothing else."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        files.add(program, f"bin/{program.name}")
    blobs: dict[str, bytes] = {}

    def add(content: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}

    stored = add(layer.getvalue(), "application/vnd.oci.image.layer.v1.tar")
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"User": user, "Entrypoint": list(entrypoint)},
        "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": add(_json(config), "application/vnd.oci.image.config.v1+json"),
        "layers": [stored],
    }
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {
        "schemaVersion": 2,
        "manifests": [add(_json(manifest), MANIFEST, annotations=names)],
    }
    contents = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    parts = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **contents}
    archive.write_bytes(_tar(parts))
    return archive


def derive(archive: Path, source: Path, name: str, *, command: Sequence[str], files: Mapping[str, bytes]) -> Path:
    """A Docker archive `name` with the layers of another one, these files above them, and another command."""
    added = _tar({path.lstrip("/"): content for path, content in files.items()})
    with tarfile.open(source) as old:
        contents = {entry.name: _read(old, entry.name) for entry in old.getmembers() if entry.isfile()}
    (manifest,) = json.loads(contents.pop("manifest.json"))
    config = json.loads(contents.pop(manifest["Config"]))
    config["config"]["Cmd"] = list(command)
    digest = hashlib.sha256(added).hexdigest()
    config["rootfs"]["diff_ids"].append(f"sha256:{digest}")
    config["history"].append({"created_by": "tools.node.oci"})
    new = {"Config": "config.json", "RepoTags": [name], "Layers": [*manifest["Layers"], f"{digest}.tar"]}
    contents |= {f"{digest}.tar": added, "config.json": _json(config), "manifest.json": json.dumps([new]).encode()}
    contents.pop("repositories", None)
    archive.write_bytes(_tar(contents))
    return archive


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None, name
    return file.read()


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _tar(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in contents.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
