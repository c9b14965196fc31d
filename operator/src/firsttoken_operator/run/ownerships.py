"""Tells our own writes of replicas from everybody else's, for the whole fleet: state around `act.ownership`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from firsttoken_operator.act.ownership import ForeignWrite, Ownership, Windows, intends, observe, wrote
from firsttoken_operator.domain import FleetSnapshot, ResourceSnapshot, ScalingMode, Target


@dataclass(frozen=True, slots=True)
class Claimed:
    """A snapshot whose resources say who else writes their replicas, and the foreign writes seen at this tick."""

    snapshot: FleetSnapshot
    foreign: dict[str, ForeignWrite]


class Ownerships:
    """What is known about the writers of each target, by uid of the resource."""

    def __init__(self, foreign_write_window_seconds: float) -> None:
        self._window_seconds = foreign_write_window_seconds
        self._states: dict[str, Ownership] = {}

    def claim(self, snapshot: FleetSnapshot) -> Claimed:
        """Compare what the watches show with what we wrote."""
        foreign: dict[str, ForeignWrite] = {}
        resources = []
        for resource in snapshot.resources:
            claimed, write = self._claim(resource, snapshot.now_seconds)
            resources.append(claimed)
            if write is not None:
                foreign[resource.uid] = write
        for uid in self._states.keys() - {resource.uid for resource in snapshot.resources}:
            del self._states[uid]
        return Claimed(replace(snapshot, resources=tuple(resources)), foreign)

    def intends(self, uid: str, to_replicas: int, now_seconds: float) -> None:
        """Take note of our own write before it is sent."""
        self._states[uid] = intends(self._states.get(uid, Ownership()), to_replicas, now_seconds)

    def wrote(self, uid: str, to_replicas: int, now_seconds: float) -> None:
        """Take note of our own write."""
        self._states[uid] = wrote(self._states.get(uid, Ownership()), to_replicas, now_seconds)

    def _claim(self, resource: ResourceSnapshot, now_seconds: float) -> tuple[ResourceSnapshot, ForeignWrite | None]:
        target = resource.target
        if not isinstance(target, Target) or resource.policy.mode is not ScalingMode.ACTIVE:
            # Whoever scales while we do not is no rival. Afterwards whatever is there is adopted.
            self._states.pop(resource.uid, None)
            return resource, None
        windows = Windows(self._window_seconds, resource.policy.stabilization_seconds)
        before = self._states.get(resource.uid, Ownership())
        state, write = observe(before, target.uid, target.replicas, resource.conflict, now_seconds, windows)
        self._states[resource.uid] = state
        return replace(resource, conflict=state.conflict), write
