"""Trajectories of a fleet's size, and where two of them differ by more than a replica and an interval. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Sizes of a fleet: `changes` are (second, replicas), ascending; the first holds from the beginning of time."""

    changes: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, events: Sequence[tuple[float, int]], begin_seconds: float, end_seconds: float) -> Trajectory:
        """The events between two times: what was asked for at the first, and each change until the last."""
        before = [replicas for at, replicas in events if at <= begin_seconds]
        changes = [(begin_seconds, before[-1] if before else events[0][1])]
        for at, replicas in events:
            if begin_seconds < at < end_seconds and replicas != changes[-1][1]:
                changes.append((at, replicas))
        return cls(tuple(changes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes in order."""
        return tuple(replicas for _, replicas in self.changes)

    def at(self, seconds: float) -> int:
        """The size at one time."""
        index = bisect_right(self.changes, seconds, key=lambda change: change[0]) - 1
        return self.changes[max(index, 0)][1]

    def range_within(self, begin_seconds: float, end_seconds: float) -> tuple[int, int]:
        """The smallest and the largest size between two times, both included."""
        seen = [self.at(begin_seconds), *(r for at, r in self.changes if begin_seconds < at <= end_seconds)]
        return min(seen), max(seen)

    def __str__(self) -> str:
        return ", ".join(f"{replicas} at {at:.1f} s" for at, replicas in self.changes)


@dataclass(frozen=True, slots=True)
class Difference:
    """A time in which one trajectory is at a size that the other one does not come near."""

    begin_seconds: float
    end_seconds: float
    whose: str
    replicas: int
    lowest: int
    highest: int

    def __str__(self) -> str:
        return (
            f"{self.begin_seconds:.1f} to {self.end_seconds:.1f} s: {self.whose} {self.replicas},"
            f" the other {self.lowest} to {self.highest}"
        )


def differences(
    trajectories: dict[str, Trajectory], *, end_seconds: float, replicas: int, interval_seconds: float
) -> list[Difference]:
    """Find where one of two named trajectories leaves the tube around the other one, either way; none: they agree.

    The tube around a trajectory goes, at each time, from its smallest to its largest size within `interval_seconds` of
    that time, and `replicas` further. So a change may come an interval early or late and miss by so many replicas;
    another change, one left out, or one two intervals late is outside, as long as it is of more than `replicas`.
    """
    (one, first), (other, second) = trajectories.items()
    return [
        *_outside(one, first, second, end_seconds, replicas, interval_seconds),
        *_outside(other, second, first, end_seconds, replicas, interval_seconds),
    ]


def _outside(
    whose: str, trajectory: Trajectory, around: Trajectory, end: float, replicas: int, interval: float
) -> list[Difference]:
    # Between two of these times neither the trajectory nor the tube changes.
    begin = max(trajectory.changes[0][0], around.changes[0][0])
    edges = {begin, end, *(at for at, _ in trajectory.changes)}
    edges |= {at + shift for at, _ in around.changes for shift in (-interval, interval)}
    found: list[Difference] = []
    for start, stop in pairwise(sorted(edge for edge in edges if begin <= edge <= end)):
        middle = (start + stop) / 2
        size = trajectory.at(middle)
        low, high = around.range_within(middle - interval, middle + interval)
        if low - replicas <= size <= high + replicas:
            continue
        found.append(Difference(start, stop, whose, size, low, high))
    return found
