"""Processes as the kernel counts them: CPU time, resident memory, and what the whole machine did."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_KIBIBYTES_A_MEGABYTE = 1e6 / 1024
_IDLE = (3, 4)
"""Places of the idle and the waiting time among the machine's times."""
YARDSTICK_ROUNDS = 25
_COUNTED = 8
"""Times of the machine that are not parts of others."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds so far of each process, by name, and of the whole machine."""

    processes: Mapping[str, float]
    machine: float

    def cores_since(self, earlier: CpuTimes, seconds: float) -> dict[str, float]:
        """Cores of each, of the machine, and of what is none of the processes (`others`)."""
        names = self.processes.keys() & earlier.processes.keys()
        cores = {name: (self.processes[name] - earlier.processes[name]) / seconds for name in sorted(names)}
        machine = (self.machine - earlier.machine) / seconds
        return cores | {"machine": machine, "others": max(0.0, machine - sum(cores.values()))}


def cpu_times(pids: Mapping[str, int]) -> CpuTimes:
    """Read them now; a process that has ended is left out."""
    times = {name: seconds for name, pid in pids.items() if (seconds := cpu_seconds(pid)) is not None}
    fields = (_PROC / "stat").read_text().splitlines()[0].split()[1 : _COUNTED + 1]
    busy = sum(int(ticks) for place, ticks in enumerate(fields) if place not in _IDLE)
    return CpuTimes(times, busy / _TICKS_A_SECOND)


def cpu_seconds(pid: int) -> float | None:
    """CPU seconds of a process so far, in user mode and in the kernel; None where it has ended."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process in MB; 0 where it has ended."""
    return _status(pid).get("VmRSS", 0.0)


def peak_megabytes(pid: int) -> float:
    """Most resident memory that a process ever had, in MB; 0 where it has ended."""
    return _status(pid).get("VmHWM", 0.0)


def _status(pid: int) -> dict[str, float]:
    try:
        return dict(_sizes((_PROC / str(pid) / "status").read_text()))
    except (FileNotFoundError, ProcessLookupError):
        return {}


def _sizes(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            yield name, int(value[:-3]) / _KIBIBYTES_A_MEGABYTE


def yardstick_milliseconds() -> float:
    """CPU time of a fixed piece of work of Python's, by which budgets are told for another CPU."""
    document = {str(n): {"labels": {"pod": f"w-{n}"}, "value": [n, str(n / 7)]} for n in range(1000)}
    found = []
    for _ in range(YARDSTICK_ROUNDS):
        began = time.process_time()
        json.loads(json.dumps(document))
        found.append(1000 * (time.process_time() - began))
    return statistics.median(found)
