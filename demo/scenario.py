"""Scenario of the demo: the load, the cluster and the one time scale that compresses fifty minutes into five.

Every duration below is nominal. `time_scale` divides the tick, every `*Seconds` field of `spec.scaling`, the rate
window, the scrape and discovery intervals, the ten-minute scale-down rate limit and the cold start; never the times of
requests. The phases of the load are given in seconds of wall time, as they are watched.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """From `at_seconds` of wall time on, this many requests a second arrive."""

    at_seconds: float
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of the demo."""

    phases: tuple[Phase, ...] = (Phase(0, 80), Phase(120, 200), Phase(180, 80))
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
    def burst(self) -> Phase:
        """The phase with the most load."""
        return max(self.phases, key=lambda p: p.requests_per_second)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Sizing of the scenario, by which the run is judged."""

    replicas_for_peak: int
    replicas_for_burst: int
    replica_limit: int
    min_replicas: int
    ttft_sla_milliseconds: float
    gpus_per_replica: int = 1
