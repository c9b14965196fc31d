"""Recording of a running operator by part, with py-spy: where its CPU time goes, without a line of its own code.

A sample belongs to the innermost function of the operator that names a part. What both sides use (the values of
`domain`, the tables of the sizing model, pydantic models) names none: its caller does. What no function of the operator
is on the stack of is the event loop's: sockets, TLS, timers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tools.cluster import SetupError

Result = TypeVar("Result")

SAMPLES_A_SECOND = 100
GRACE_SECONDS = 60.0


class Part(StrEnum):
    """Part of the operator that CPU time is spent in."""

    WATCH = "watch"
    MEASURE = "measure"
    DECIDE = "decide"
    WRITE = "write"
    SIZING = "sizing"
    METRICS = "metrics"
    LOOP = "event loop"


FILES = {
    "kopf/": Part.WATCH,
    "firsttoken_operator/run/kopf_": Part.WATCH,
    "firsttoken_operator/run/reflector.py": Part.WATCH,
    "firsttoken_operator/run/sync.py": Part.WATCH,
    "firsttoken_operator/observe/store.py": Part.WATCH,
    "firsttoken_operator/observe/resources.py": Part.WATCH,
    "firsttoken_operator/observe/projections.py": Part.WATCH,
    "firsttoken_operator/observe/": Part.MEASURE,
    "firsttoken_operator/run/measuring.py": Part.MEASURE,
    "firsttoken_operator/run/reading.py": Part.MEASURE,
    "firsttoken_operator/run/lookout.py": Part.MEASURE,
    "firsttoken_operator/run/history.py": Part.MEASURE,
    "firsttoken_operator/decide/": Part.DECIDE,
    "firsttoken_operator/estimate/": Part.DECIDE,
    "firsttoken_operator/run/isolation.py": Part.DECIDE,
    "firsttoken_operator/run/restore.py": Part.DECIDE,
    "firsttoken_operator/run/victims.py": Part.DECIDE,
    "firsttoken_operator/act/": Part.WRITE,
    "firsttoken_operator/run/rendering.py": Part.WRITE,
    "firsttoken_operator/run/election.py": Part.WRITE,
    "firsttoken_operator/run/switch.py": Part.WRITE,
    "firsttoken_operator/run/sizer.py": Part.SIZING,
    "firsttoken_operator/run/sizing_store.py": Part.SIZING,
    "firsttoken_operator/run/question.py": Part.SIZING,
    "firsttoken_operator/run/turns.py": Part.SIZING,
    "firsttoken_operator/run/metrics.py": Part.METRICS,
    "firsttoken_operator/run/series.py": Part.METRICS,
    "prometheus_client/": Part.METRICS,
}
"""Part by the beginning of a file's path in its package; the first that matches."""


def record(pid: int, file: Path, work: Callable[[], Result]) -> tuple[Result, Counter[Part]]:
    """Record a process while the work is done: its result, and samples by part. The stacks stay in `file`.

    Raises `SetupError`: mostly this user may not trace the process (`kernel.yama.ptrace_scope`).
    """
    command = [
        Path(sys.executable).with_name("py-spy"), "record", "--pid", str(pid), "--nonblocking",
        "--rate", str(SAMPLES_A_SECOND), "--format", "raw", "--full-filenames", "--output", file,
    ]  # fmt: skip
    spy = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        result = work()
        # NB: it writes its file when it is interrupted.
        spy.send_signal(signal.SIGINT)
        said, _ = spy.communicate(timeout=GRACE_SECONDS)
    except BaseException:
        spy.kill()
        raise
    if not file.exists():
        raise SetupError(f"py-spy exited with {spy.returncode}: {said.strip()}")
    return result, by_part(file.read_text(encoding="utf-8").splitlines())


def by_part(lines: Iterable[str]) -> Counter[Part]:
    """Count the samples of py-spy's raw format, `frame;frame;... count`, outermost frame first."""
    samples: Counter[Part] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        samples[part_of(stack.split(";"))] += int(count)
    return samples


def part_of(frames: list[str]) -> Part:
    """Part of the innermost frame that names one."""
    for frame in reversed(frames):
        for beginning, part in FILES.items():
            if f"/{beginning}" in frame:
                return part
    return Part.LOOP


def milliseconds(samples: Counter[Part], cpu_seconds: float, resources: int, ticks: float) -> dict[str, float]:
    """CPU milliseconds of one resource and tick, by part: each has its share of the samples."""
    each = 1000 * cpu_seconds / (resources * max(1.0, ticks)) / max(1, samples.total())
    return {part.value: round(samples[part] * each, 3) for part in Part}
