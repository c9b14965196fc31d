"""Exhaustive exploration of a small pool: what every interleaving of ticks, writes, watches and a takeover charges.

Two Deployments share a pool of two GPUs, one GPU a replica. Explored is everything that can happen in any order: the
leader decides on what it has seen so far and writes; a write is refused where the Deployment has changed since; the
controller makes and ends pods; pods take their time to end; the watch shows each Deployment, and the pods of each, at
any later time; a second process that has seen less takes over. The decision is the operator's own ledger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from firsttoken_operator.decide import arbitrate
from firsttoken_operator.decide.bounds import Bounds
from firsttoken_operator.decide.case import Case
from firsttoken_operator.decide.down import Reduction, pods_starting
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import DEPLOYMENT, FleetSnapshot, Outcome, PoolSnapshot, Reason, Target, Tick
from firsttoken_operator.estimate import DEFAULT, Demand, ResourceMemory
from tests.operator.decide.builders import SIZED, metrics, resource

GPUS = 2
POOL = PoolSnapshot("h100", GPUS, GPUS, on_prem=True, scale_down_limit_percent=100, scale_down_limit_window_seconds=600)


class Deployment(NamedTuple):
    """One Deployment as it is, and as the leader knows it. `written`: noted, and not seen yet; -1: nothing."""

    replicas: int = 1
    live: int = 1
    ending: int = 0
    seen_replicas: int = 1
    seen_live: int = 1
    seen_ending: int = 0
    written: int = -1

    @property
    def gpus(self) -> int:
        """GPUs that it holds, or may hold as soon as its controller acts."""
        return max(self.replicas, self.live) + self.ending

    @property
    def is_current(self) -> bool:
        """True where the leader has seen its newest replicas."""
        return self.seen_replicas == self.replicas and self.written == -1


class State(NamedTuple):
    """Both Deployments, and how often the leader has changed."""

    deployments: tuple[Deployment, Deployment]
    takeovers: int = 0


@cache
def decided(seen: tuple[tuple[int, int, int, int], ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Replicas that the leader gives to each, of which it has seen (replicas, live, ending, written)."""
    proposals = []
    for number, ((replicas, live, ending, written), to) in enumerate(zip(seen, wanted, strict=True)):
        target = Target(f"d-{number}", DEPLOYMENT, "d", replicas, live, terminating=ending, written=max(0, written))
        about = resource(target, metrics(1), uid=f"r-{number}", name=f"r-{number}", pool="h100")
        case = Case(about, target, SIZED, ResourceMemory("", "", 0), Tick(0, 15, 0, 15), DEFAULT, None, None,
                    Bounds(0, 9, Reason.BURST_HEADROOM))  # fmt: skip
        if to < replicas and pods_starting(Reduction(case, Demand(0, 0, 0), to, None)) is not None:
            to = replicas
        outcome = Outcome.UP if to > replicas else Outcome.DOWN if to < replicas else Outcome.STEADY
        proposals.append(Proposal(case, outcome, to, Reason.DEMAND_ABOVE_CAPACITY))
    snapshot = FleetSnapshot(0, 15, tuple(p.resource for p in proposals), {"h100": POOL})
    granted = arbitrate(proposals, snapshot, 0.0, DEFAULT)
    return tuple(p.to_replicas if isinstance(p, Proposal) else -1 for p in granted)


def ticks(state: State) -> Iterator[State]:
    """States after the leader wrote for whatever the load asks for; each of its writes may be lost."""
    seen = tuple((d.seen_replicas, d.seen_live, d.seen_ending, d.written) for d in state.deployments)
    for wanted in product(range(GPUS + 1), repeat=2):
        to = decided(seen, wanted)
        for arrives in product((True, False), repeat=2):
            after = tuple(
                d if goal == d.seen_replicas
                # NB: the version that was seen goes with the write, and another one is refused.
                else d._replace(replicas=goal, written=goal) if it_does and d.seen_replicas == d.replicas
                # Noted before it is sent: whether it arrived is not known.
                else d._replace(written=goal) if d.seen_replicas == d.replicas
                else d
                for d, goal, it_does in zip(state.deployments, to, arrives, strict=True)
            )  # fmt: skip
            yield state._replace(deployments=after)  # type: ignore[arg-type]


def happenings(d: Deployment) -> Iterator[Deployment]:
    """Changes that may happen to one Deployment without the leader."""
    if d.live < d.replicas:
        yield d._replace(live=d.live + 1)
    if d.live > d.replicas:
        yield d._replace(live=d.live - 1, ending=d.ending + 1)
    if d.ending:
        yield d._replace(ending=d.ending - 1)
    if d.written != -1 and d.seen_replicas == d.replicas != d.written:
        yield d._replace(replicas=d.written)  # A write that was thought lost.
    if not d.is_current:
        yield d._replace(seen_replicas=d.replicas, written=-1)
    if (d.seen_live, d.seen_ending) != (d.live, d.ending):
        yield d._replace(seen_live=d.live, seen_ending=d.ending)


def followers(state: State, *, catches_up: bool) -> Iterator[State]:
    """Every state that may follow. `catches_up`: whether a new leader sees all that there is before it decides."""
    yield from ticks(state)
    for number, d in enumerate(state.deployments):
        for after in happenings(d):
            both = list(state.deployments)
            both[number] = after
            yield state._replace(deployments=(both[0], both[1]))
    if state.takeovers == 0:
        # It has no notes, and has seen the beginning alone or, where it catches up, everything.
        taken = tuple(
            d._replace(seen_replicas=d.replicas, seen_live=d.live, seen_ending=d.ending, written=-1)
            if catches_up
            else d._replace(seen_replicas=1, seen_live=1, seen_ending=0, written=-1)
            for d in state.deployments
        )
        yield State(taken, takeovers=1)  # type: ignore[arg-type]


def explored(*, catches_up: bool = True) -> tuple[int, list[State]]:
    """Count the states; and the first that holds more than the pool has, if any."""
    start = State((Deployment(), Deployment()))
    known, waiting = {start}, deque([start])
    while waiting:
        state = waiting.popleft()
        if sum(d.gpus for d in state.deployments) > GPUS:
            return len(known), [state]
        for after in followers(state, catches_up=catches_up):
            if after not in known:
                known.add(after)
                waiting.append(after)
    return len(known), []


def test_no_interleaving_holds_more_than_the_pool_has() -> None:
    states, beyond = explored()

    assert beyond == []
    assert states > 1000


def test_a_leader_that_has_not_caught_up_would_give_what_is_given() -> None:
    assert explored(catches_up=False)[1] != []
