"""How far ahead of a declared window the fleet grows: as long as a new pod takes to be ready, and one tick to decide.

What the windows are and when they are open is in `api.schedule`.
"""

from __future__ import annotations

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.schedule import schedule_of, scheduled_peak
from firsttoken_operator.estimate import ready_seconds


def lead_seconds(time_to_ready_seconds: float | None, tick_seconds: float, time_scale: float = 1.0) -> float:
    """Seconds from a decision until its pods are ready, at most one tick late.

    `time_to_ready_seconds`: None where no start was seen (see `ready_seconds`). `tick_seconds` is as it is.
    """
    return ready_seconds(time_to_ready_seconds, time_scale) + tick_seconds


def scheduled_rate(resource: InferenceDeployment, epoch_seconds: float, lead: float) -> float | None:
    """Largest declared peak from now until a pod that is ordered now would be ready, requests per second.

    None: no window is open in that time. `epoch_seconds` is the wall clock, `lead` what `lead_seconds` says.
    """
    if not resource.spec.traffic.schedule:
        return None
    return scheduled_peak(schedule_of(resource), epoch_seconds, lead)
