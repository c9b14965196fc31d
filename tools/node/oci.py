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
    _write(archive, {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **contents})
    return archive


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _write(archive: Path, contents: Mapping[str, bytes]) -> None:
    with tarfile.open(archive, "w") as tar:
        for path, content in contents.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
