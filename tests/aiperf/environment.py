"""AIPerf in an environment of its own, in the cache: its 130 packages (840 MB) never touch those of the project."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from tests.cluster.cache import cached
from tests.cluster.progress import run_with_progress
from tests.cluster.uv import uv

FOLDER = Path(__file__).parent
LOCK = FOLDER / "requirements.txt"
TOKENIZER_SCRIPT = FOLDER / "make_tokenizer.py"


class AIPerf:
    """The real client: `command` starts it, `tokenizer` is the folder of a tokenizer that it can load offline."""

    def __init__(self, root: Path) -> None:
        # NB: by `-m`, because the entry is moved after it was made and its console scripts hold the old path.
        self.command = (root / "venv" / "bin" / "python", "-m", "aiperf")
        self.tokenizer = root / "tokenizer"


def aiperf() -> AIPerf:
    """AIPerf as `requirements.txt` pins it; installed on first use. Raises `SetupError`."""
    version = f"python {sys.version_info.major}.{sys.version_info.minor}"
    inputs = version.encode() + LOCK.read_bytes() + TOKENIZER_SCRIPT.read_bytes()
    return AIPerf(cached("aiperf", hashlib.sha256(inputs).hexdigest()[:16], _install))


def _install(out: Path) -> None:
    python = out / "venv" / "bin" / "python"
    run_with_progress("AIPerf environment", [uv(), "venv", "--relocatable", "--python", sys.executable, out / "venv"])
    run_with_progress("AIPerf packages", [uv(), "pip", "install", "--python", python, "-r", LOCK])
    (corpus,) = (out / "venv").rglob("aiperf/dataset/generator/assets/shakespeare.txt")
    run_with_progress("AIPerf tokenizer", [python, TOKENIZER_SCRIPT, corpus, out / "tokenizer"])
