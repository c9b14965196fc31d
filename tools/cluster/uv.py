"""Path of uv: beside the Python that runs (the Makefile puts it there), or on PATH."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools.cluster.progress import SetupError


def uv() -> Path:
    """The uv program; raises `SetupError` with the fix where there is none."""
    beside = Path(sys.executable).with_name("uv")
    if beside.exists():
        return beside
    if found := shutil.which("uv"):
        return Path(found)
    raise SetupError(f"uv is missing: {sys.executable} -m pip install uv")
