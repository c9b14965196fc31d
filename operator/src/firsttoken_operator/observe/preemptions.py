"""Pods that had to end for pods of a higher PriorityClass, remembered for a while after they are gone."""

from __future__ import annotations

from collections import defaultdict

from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.projections import PodView


class Preemptions:
    """The last preempted pods of each target."""

    def __init__(self, remembered_seconds: float = DEFAULT.preempted_seconds) -> None:
        self._remembered_seconds = remembered_seconds
        self._times: dict[str, dict[str, float]] = defaultdict(dict)
        """Times, seconds since the epoch, by uid of the pod, by uid of the target."""

    def note(self, target_uid: str, pod: PodView) -> None:
        """Take a pod into account, where it had to end for another one."""
        if pod.preempted_seconds is not None:
            times = self._times[target_uid]
            times[pod.uid] = pod.preempted_seconds
            # NB: of a target that no resource names nothing is asked: what is old goes when something new comes.
            self._drop_before(max(times.values()) - self._remembered_seconds, times)

    def forget(self, target_uid: str) -> None:
        """A target is gone."""
        self._times.pop(target_uid, None)

    def count(self, target_uid: str, wall_seconds: float) -> int:
        """Count those that are remembered; `wall_seconds`: now, since the epoch."""
        times = self._times.get(target_uid)
        if times is None:
            return 0
        self._drop_before(wall_seconds - self._remembered_seconds, times)
        return len(times)

    @staticmethod
    def _drop_before(since_seconds: float, times: dict[str, float]) -> None:
        for pod in [pod for pod, at in times.items() if at < since_seconds]:
            del times[pod]
