"""A directory on disk for what is expensive to make and safe to keep: built binaries, environments, downloads.

Every entry is a directory made once by a function and never changed afterwards. Two processes that want the same entry
at the same time do not both make it, and a process that dies half way leaves nothing that looks finished. It knows
nothing of what it stores and deletes nothing: `rm -r` of the root is always safe.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """The cache's root: `$FIRSTTOKEN_CACHE`, else `$XDG_CACHE_HOME/firsttoken`, else `~/.cache/firsttoken`."""
    if own := os.environ.get("FIRSTTOKEN_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "firsttoken"


def cached(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """The directory `<root>/<name>/<key>`, made by `build(empty directory)` the first time it is asked for.

    `build` fills a temporary directory beside the final one, which is then renamed: an entry is complete or absent.
    Whatever `build` raises passes through, and the next call tries again.

    NB: the contents move once `build` returns, so they must not hold their own absolute path.
    """
    final = cache_root() / name / key
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _locked(final.with_name(f".{key}.lock"), what=f"{name}/{key}"):
        if final.is_dir():
            return final
        temporary = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=final.parent))
        try:
            build(temporary)
            temporary.chmod(0o755)
            temporary.rename(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return final


@contextmanager
def _locked(path: Path, *, what: str) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel frees it even when this process is killed."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that makes {what}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
