"""A peer's environment in the cache: its packages (35, 670 MB for AIConfigurator) never touch those of the project.

Made only when asked for (`--peers`), as `requirements.lock` beside the peer pins it; a run that only looks gets what is
there. An entry is never changed: another lock, or another Python, is another entry.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent


class PeerError(RuntimeError):
    """A peer could not be installed or did not answer; the message says why."""


def cache_root() -> Path:
    """`$FIRSTTOKEN_CACHE`, else `$XDG_CACHE_HOME/firsttoken`, else `~/.cache/firsttoken`."""
    if own := os.environ.get("FIRSTTOKEN_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "firsttoken"


def environment_of(peer: str) -> Path:
    """Folder of the environment of a peer (a folder beside this file), made or not."""
    version = f"python {sys.version_info.major}.{sys.version_info.minor}"
    lock = (_HERE / peer / "requirements.lock").read_text(encoding="utf-8")
    return cache_root() / peer / hashlib.sha256(f"{version}\n{lock}".encode()).hexdigest()[:16]


def python_of(peer: str) -> Path | None:
    """The Python of an installed peer; None where it is not installed."""
    python = environment_of(peer) / "bin" / "python"
    return python if python.exists() else None


def install(peer: str) -> Path:
    """Install a peer unless it is there, and return its Python. Needs uv and a package registry; raises `PeerError`."""
    if (python := python_of(peer)) is not None:
        return python
    final = environment_of(peer)
    final.parent.mkdir(parents=True, exist_ok=True)
    # An entry is complete or absent: it is made beside its place and renamed. NB: therefore relocatable.
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        _run([_uv(), "venv", "--clear", "--relocatable", "--python", sys.executable, str(temporary)])
        into = ["--python", str(temporary / "bin" / "python")]
        _run([_uv(), "pip", "sync", "--require-hashes", *into, str(_HERE / peer / "requirements.lock")])
        temporary.chmod(0o755)
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if (python := python_of(peer)) is not None:  # another process was first
            return python
        raise
    return final / "bin" / "python"


def ask(peer: str, script: str, question: Any) -> Any:
    """The answer of `<peer>/<script>` to a question, both JSON. Raises `PeerError` where it is absent or fails."""
    python = python_of(peer)
    if python is None:
        raise PeerError(f"{peer} is not installed in {environment_of(peer)}")
    return json.loads(_run([str(python), str(_HERE / peer / script)], json.dumps(question)))


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise PeerError(f"uv is missing: {sys.executable} -m pip install uv")
    return found


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise PeerError(f"{' '.join(command[:3])} exited with {done.returncode}: {last[0]}")
    return done.stdout


def main() -> int:
    """Print the Python of a peer's environment, for a caller that cannot import this; install it first if told so."""
    parser = argparse.ArgumentParser(description="Where the environment of a peer is; 1 where it is not installed.")
    parser.add_argument("peer", choices=sorted(lock.parent.name for lock in _HERE.glob("*/requirements.lock")))
    parser.add_argument("--install", action="store_true", help="make it, which needs uv and a package registry")
    given = parser.parse_args()
    try:
        python = install(given.peer) if given.install else python_of(given.peer)
    except PeerError as error:
        print(error, file=sys.stderr)
        return 1
    if python is None:
        print(f"{given.peer} is not installed in {environment_of(given.peer)}", file=sys.stderr)
        return 1
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
