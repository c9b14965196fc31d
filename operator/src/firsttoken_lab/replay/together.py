"""Several deployments that share the GPUs of a pool, decided on together by the operator's own `decide`.

Each plays as it does alone; at each tick one snapshot has all of them, so that one ledger shares the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firsttoken_lab.replay.calendar import Calendar
from firsttoken_lab.replay.play import Played, Playing, Stage
from firsttoken_lab.replay.policies.ours import TICK_SECONDS, Ours, resource_seen
from firsttoken_lab.replay.policies.view import View
from firsttoken_lab.replay.rented import RentedGPUs
from firsttoken_operator.decide import Memory, decide, judge_facts
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, ScalingPolicy, Sized
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from firsttoken_sizing.simulation.requests import Requests


@dataclass(frozen=True, slots=True, eq=False)
class Sharer:
    """One deployment of a pool. `namespace` is its tenant's."""

    uid: str
    namespace: str
    sized: Sized
    policy: ScalingPolicy
    requests: Requests
    stage: Stage
    initial: int
    """Replicas to begin with, ready at once."""
    priority: int = 0


class Together:
    """The decision for all deployments of one pool, at the operator's interval."""

    def __init__(self, sharers: Sequence[Sharer], pool: PoolSnapshot | None, config: EstimatorConfig = DEFAULT) -> None:
        """`pool` None: none of them is in one."""
        self._sharers, self._config, self._memory = tuple(sharers), config, Memory()
        self._pools = {pool.name: pool} if pool else {}
        self._pool_name, self._calendar = pool.name if pool else None, Calendar()

    def decisions(self, views: Sequence[View]) -> list[Decision]:
        """One tick of the operator, in the order of the deployments. All views are of one moment."""
        resources = tuple(
            replace(
                resource_seen(view, each.sized, each.policy, each.uid, each.namespace),
                priority=each.priority,
                pool=self._pool_name,
            )
            for each, view in zip(self._sharers, views, strict=True)
        )
        now = views[0].now_seconds
        snapshot = FleetSnapshot(
            now, TICK_SECONDS, resources, self._pools, epoch_seconds=self._calendar.epoch_seconds(now)
        )
        judged = judge_facts(snapshot, config=self._config)
        decisions, self._memory = decide(judged, self._memory, self._config)
        made = {decision.uid: decision for decision in decisions}
        return [made[each.uid] for each in self._sharers]


def play_together(
    sharers: Sequence[Sharer], pool: PoolSnapshot | None, rented: Sequence[RentedGPUs | None] = ()
) -> list[Played]:
    """Play all of them to the last arrival of any. The same arguments give the same result.

    `rented`: GPUs that each uses, in their order; one that several name is shared by them. None given: GPUs are there.
    Raises ValueError for stages that are not scraped at one time.
    """
    times = {(s.stage.scrape_seconds, s.stage.scrape_lag_seconds) for s in sharers}
    if len(times) != 1:
        raise ValueError(f"the deployments of a pool are scraped together, not by {sorted(times)}")
    ((every, lag),) = times
    policy, shared = Together(sharers, pool), rented or [None] * len(sharers)
    playing = [Playing(s.requests, s.stage, s.initial, gpus) for s, gpus in zip(sharers, shared, strict=True)]
    end = max(float(s.requests.arrival_s[-1]) for s in sharers)
    next_scrape, next_look = every - lag, TICK_SECONDS
    while min(next_scrape, next_look) <= end:
        if next_scrape <= next_look:
            for each in playing:
                each.scrape(next_scrape)
            next_scrape += every
            continue
        for gpus in {id(gpus): gpus for gpus in shared if gpus is not None}.values():
            gpus.advance(next_look)
        decisions = policy.decisions([each.look(next_look) for each in playing])
        for each, decision in zip(playing, decisions, strict=True):
            each.ask(decision.to_replicas, next_look, decision.to_standby)
        next_look += TICK_SECONDS
    return [each.finish(Ours.name, end) for each in playing]
