"""`make demo` as a user types it, and what it says meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass

from demo.stage import ROOT

LONGEST_SILENCE_SECONDS = 60
"""Time without a line that a user is asked to bear."""


@dataclass(frozen=True, slots=True)
class Made:
    """End of `make demo`: its exit status, all that it said, and the longest time that it said nothing."""

    returncode: int
    said: str
    silence_seconds: float


def make_demo(*variables: str, arguments: str = "", environment: dict[str, str] | None = None) -> Made:
    """Make it with these variables and options, and this environment beside the usual one."""
    command = ["make", "demo", *variables, f"DEMO_ARGS={arguments}"]
    own_cluster = ("KUBECONFIG", "PROMETHEUS_URL")  # a developer's own must never be played on by a test
    clean = {k: v for k, v in os.environ.items() if k not in own_cluster} | (environment or {})
    at, lines, silence_seconds = time.monotonic(), [], 0.0
    with subprocess.Popen(
        command, cwd=ROOT, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as made:
        assert made.stdout is not None
        for line in made.stdout:
            silence_seconds, at = max(silence_seconds, time.monotonic() - at), time.monotonic()
            lines.append(line)
    said = "".join(lines)
    print(said, f"longest silence: {silence_seconds:.0f} s")
    return Made(made.returncode, said, silence_seconds)
