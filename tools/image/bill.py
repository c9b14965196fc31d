"""The bill of materials of the image, made true: what lies in its root, Debian's packages and Python included.

Run by the Dockerfile after `runtime_root.py`; standard library only. `uv export` lists what uv.lock may bring on any
platform; here stays what is installed. The libraries come from packages of Debian, which are named twice: in the bill,
and below /var/lib/dpkg/status.d, where scanners of images look for them.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LISTS = Path("/var/lib/dpkg/info")


def main(root: Path, bill_file: Path) -> int:
    """Correct the bill of what is in `root`; raises SystemExit where an installed package is not on it."""
    bill: dict[str, Any] = json.loads(bill_file.read_text())
    installed = set(python_packages(root))
    kept = [part for part in bill["components"] if (part["name"], part["version"]) in installed]
    if lacking := installed - {(part["name"], part["version"]) for part in kept}:
        raise SystemExit(f"not on the bill: {sorted(lacking)}")
    packages = sorted(debian_packages(root))
    bill["components"] = [*kept, cpython(), *(debian_component(package) for package in packages)]
    refs = {part["bom-ref"] for part in kept} | {bill["metadata"]["component"]["bom-ref"]}
    bill["dependencies"] = [
        entry | {"dependsOn": [ref for ref in entry.get("dependsOn", ()) if ref in refs]}
        for entry in bill["dependencies"]
        if entry["ref"] in refs
    ]
    bill_file.write_text(json.dumps(bill, indent=1))
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for package in packages:
        (status / package).write_text(dpkg_query("--status", package))
    return 0


def python_packages(root: Path) -> Iterator[tuple[str, str]]:
    """Names, as the bill writes them, and versions of the packages that are installed."""
    for folder in root.glob("opt/*/lib/python3*/site-packages/*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        yield re.sub(r"[-_.]+", "-", name).lower(), version


def debian_packages(root: Path) -> set[str]:
    """The packages of Debian that files below `root` come from."""
    files = {f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
    found = set()
    for listed in LISTS.glob("*.list"):
        # NB: Debian lists what is below /lib there, wherever the link /lib leads.
        if any(name in files or f"/usr{name}" in files for name in listed.read_text().splitlines()):
            found.add(listed.name.removesuffix(".list").partition(":")[0])
    return found


def debian_component(package: str) -> dict[str, str]:
    """A package of Debian as a component of the bill."""
    version, architecture = dpkg_query("--show", "--showformat=${Version} ${Architecture}", package).split()
    purl = f"pkg:deb/debian/{package}@{version.replace('+', '%2B')}?arch={architecture}"
    return {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl}


def cpython() -> dict[str, str]:
    """The interpreter: in the official image it is of no package."""
    version = platform.python_version()
    purl = f"pkg:generic/cpython@{version}"
    return {"type": "application", "bom-ref": purl, "name": "cpython", "version": version, "purl": purl}


def dpkg_query(*arguments: str) -> str:
    """Ask Debian's database."""
    return subprocess.run(["dpkg-query", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
