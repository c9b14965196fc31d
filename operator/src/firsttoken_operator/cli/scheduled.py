"""Replicas for the windows of `spec.traffic.schedule`, in the table and the JSON of `firsttoken size`.

The size itself stays the one for the declared peak: a window is open for some hours, a price is for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.quantities import number
from firsttoken_operator.api.schedule_spec import ScheduleWindow
from firsttoken_sizing.request import Sizing


@dataclass(frozen=True, slots=True)
class SizedWindow:
    """One declared window with the replicas, and the GPUs of all of them, that its peak needs."""

    declared: ScheduleWindow
    replicas: int
    gpus: int

    def sentence(self) -> str:
        """The window as a person says it."""
        window = self.declared
        days = ", ".join(window.days) or "every day"
        rate = number(window.peak_requests_per_second)
        return (
            f"Schedule: {self.replicas} replicas ({self.gpus} GPUs) for {rate:g} requests/s,"
            f" {days} from {window.start} to {window.end} ({window.time_zone})"
        )

    def document(self) -> dict[str, Any]:
        """The window as it was declared, the rate as a number, and its size."""
        window = self.declared
        return {
            **window.model_dump(mode="json", by_alias=True),
            "peakRequestsPerSecond": number(window.peak_requests_per_second),
            "replicas": self.replicas,
            "gpus": self.gpus,
        }


def sized_windows(deployment: InferenceDeployment, sizing: Sizing) -> tuple[SizedWindow, ...]:
    """Every window in the configuration that was chosen for the declared peak; none where no size is feasible."""
    if not sizing.feasible or sizing.table is None or sizing.configuration is None:
        return ()
    found = []
    for window in deployment.spec.traffic.schedule:
        replicas = sizing.table.replicas_for(number(window.peak_requests_per_second) or 0.0)
        found.append(SizedWindow(window, replicas, replicas * sizing.configuration.gpus_per_replica))
    return tuple(found)
