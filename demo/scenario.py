"""Scenario of the demo: the load, the cluster and the one time scale that compresses 48 minutes into five.

Every duration below is nominal. `time_scale` divides the tick, every `*Seconds` field of `spec.scaling`, the rate
window, the scrape and discovery intervals, the ten-minute scale-down rate limit and the cold start; never the times of
requests. The phases of the load are given in seconds of wall time, as they are watched.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP_SECONDS = 5.0
"""Interval between two steps of a load that rises or falls."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Rate of requests a second that arrive from `at_seconds` of wall time on."""

    at_seconds: float
    requests_per_second: float


def ramp(begin_seconds: float, end_seconds: float, before: float, after: float) -> tuple[Phase, ...]:
    """Steps from one rate to another, the last of them at the end."""
    steps = round((end_seconds - begin_seconds) / STEP_SECONDS)
    return tuple(
        Phase(begin_seconds + STEP_SECONDS * step, before + (after - before) * step / steps)
        for step in range(1, steps + 1)
    )


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of the demo."""

    phases: tuple[Phase, ...] = (Phase(0, 80),)
    duration_seconds: float = 300.0
    """Wall time of the whole run."""
    time_scale: float = 10.0
    tick_seconds: float = 15.0
    scrape_interval_seconds: float = 5.0
    rate_window_seconds: float = 40.0
    discovery_interval_seconds: float = 2.0
    cold_start_seconds: float = 180.0
    initial_replicas: int = 16
    servers: int = 8
    gpus_per_server: int = 8
    seed: int = 1

    def scaled(self, seconds: float) -> float:
        """Wall time of a nominal duration."""
        return seconds / self.time_scale

    @property
    def tick_wall_seconds(self) -> float:
        """Wall time between two decisions."""
        return self.scaled(self.tick_seconds)

    @property
    def rise(self) -> Phase:
        """The phase with which the load begins to change."""
        return self.phases[1]

    @property
    def peak(self) -> Phase:
        """The phase with the most load."""
        return max(self.phases, key=lambda p: p.requests_per_second)


BUSY_HOUR = Scenario(
    phases=(Phase(0, 40), *ramp(50, 190, 40, 200), *ramp(215, 245, 200, 40)),
    duration_seconds=285.0,
    cold_start_seconds=90.0,
    initial_replicas=4,
)
"""Five times the load within 23 minutes, four minutes of it, and the way back; in five minutes."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Sizing of the scenario, by which the run is judged."""

    replicas_for_peak: int
    replica_limit: int
    min_replicas: int
    ttft_sla_milliseconds: float
    gpus_per_replica: int = 1
