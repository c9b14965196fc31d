"""Prepares a release: `make release VERSION=0.2.0`, then a look at the commit, then `git push --follow-tags`.

The version stands in `pyproject.toml`. The chart has to repeat it, and the lock names it; this writes all three, heads
the unreleased part of the changelog with version and date, commits and tags, and makes in dist/ what is uploaded: the
packaged chart, the custom resource definitions in one file, and their sums.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from tools.cluster.tools import helm

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
UNRELEASED = "## [Unreleased]\n"


class ReleaseError(Exception):
    """One line that says what is in the way of the release, and what to do."""


def project_version(root: Path) -> str:
    """The version that `pyproject.toml` names."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert isinstance(version, str), "PEP 621 has it so"
    return version


def prepare(root: Path, version: str, date: str) -> None:
    """Write `version` wherever it stands, and the release's heading into the changelog; raises `ReleaseError`."""
    before = project_version(root)
    if VERSION.fullmatch(version) is None:
        raise ReleaseError(f"VERSION={version}: write three numbers, as in 0.2.0")
    if _numbers(version) <= _numbers(before):
        raise ReleaseError(f"VERSION={version}: is not above {before}, the version of pyproject.toml")
    changelog = (root / "CHANGELOG.md").read_text()
    start = changelog.find(UNRELEASED)
    unreleased = changelog[start + len(UNRELEASED) :].partition("\n## [")[0]
    if start < 0 or not unreleased.strip():
        raise ReleaseError("CHANGELOG.md: nothing stands below [Unreleased]; say what users get")
    _replace(root / "CHANGELOG.md", UNRELEASED, f"{UNRELEASED}\n## [{version}] - {date}\n")
    _replace(root / "pyproject.toml", f'\nversion = "{before}"\n', f'\nversion = "{version}"\n')
    chart = root / "helm/firsttoken/Chart.yaml"
    _replace(chart, f"\nversion: {before}\n", f"\nversion: {version}\n")
    _replace(chart, f'\nappVersion: "{before}"\n', f'\nappVersion: "{version}"\n')
    entry = 'name = "firsttoken"\nversion = "{}"\n'
    _replace(root / "uv.lock", entry.format(before), entry.format(version))


def artifacts(root: Path, folder: Path) -> list[Path]:
    """Package the chart, bundle the definitions, and sum up both, as files of `folder`."""
    version = project_version(root)
    folder.mkdir(exist_ok=True)
    packaged = ("package", str(root / "helm/firsttoken"), "--destination", str(folder))
    subprocess.run((str(helm()), *packaged), check=True, capture_output=True)
    chart, definitions = folder / f"firsttoken-{version}.tgz", folder / f"firsttoken-crds-{version}.yaml"
    definitions.write_text("".join(f"---\n{file.read_text()}" for file in sorted((root / "crds").glob("*.yaml"))))
    sums = folder / f"firsttoken-{version}.sha256"
    sums.write_text("".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in (chart, definitions)))
    return [chart, definitions, sums]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if text.count(old) != 1:
        raise ReleaseError(f"{file.name}: {old.strip()!r} stands there {text.count(old)} times instead of once")
    file.write_text(text.replace(old, new))


def main(version: str) -> int:
    """Prepare, commit and tag; print what is left to do."""
    try:
        if _git("status", "--porcelain"):
            raise ReleaseError("the working tree has changes; commit or stash them first")
        prepare(ROOT, version, datetime.now(UTC).date().isoformat())
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _git("commit", "--all", "--message", f"Release {version}")
    _git("tag", "--annotate", f"v{version}", "--message", f"firsttoken {version}")
    made = artifacts(ROOT, ROOT / "dist")
    print(f"v{version} is committed and tagged; look at it, then: git push --follow-tags")
    print(f"to be uploaded, and signed as docs/chart.md says: {', '.join(str(file) for file in made)}")
    return 0


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
