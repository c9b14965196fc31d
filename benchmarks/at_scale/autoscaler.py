"""Autoscaler that is measured: what the phases need of ours and of the peer alike."""

from __future__ import annotations

from typing import Protocol

from at_scale.exposition import MetricsPage
from at_scale.probing import Probes

Instants = dict[str, float]
"""Monotonic time by name of a workload."""


class Autoscaler(Protocol):
    """One autoscaler on a rig."""

    name: str
    processes: tuple[str, ...]
    """Names of the programs that it consists of."""
    has_metrics_of_pods: bool
    """It reads the series of every pod; else one series of every workload."""
    probes: Probes | None
    """Probes of its health, where there are any."""

    def install(self) -> None:
        """Install its definitions and start its programs, before there is any workload."""
        ...

    def declare(self) -> None:
        """Create what asks for the scaling of every workload."""
        ...

    def decided(self) -> Instants:
        """Workloads that it has looked at so far, with the time at which that was seen."""
        ...

    def stop_watching(self) -> None:
        """Look for its decisions no longer."""
        ...

    def ticks(self, page: MetricsPage | None) -> float:
        """Ticks so far by its own page of metrics; 0 where it has none."""
        ...
