"""The whole plan: every deployment sized, every pool over the week, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firsttoken_lab.plan.cost import BaseAndBurst, WeekCost, base_and_burst, week_cost
from firsttoken_lab.plan.load import Traces, load_of
from firsttoken_lab.plan.members import Member, members_of, membership
from firsttoken_lab.plan.week import PoolWeek, pool_week
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.documents import Documents
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_sizing.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """One pool with what is planned in it."""

    week: PoolWeek
    cost: WeekCost | None
    split: BaseAndBurst | None

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.week.pool.snapshot.name


@dataclass(frozen=True, slots=True)
class Plan:
    """Answer for a folder. `growth`: all loads are this many times the declared ones."""

    members: tuple[Member, ...]
    pools: tuple[PoolPlan, ...]
    growth: float

    @property
    def impossible(self) -> tuple[Member, ...]:
        """Deployments whose SLA no size meets; they are in no sum."""
        return tuple(m for m in self.members if not m.sizing.feasible)

    @property
    def fits(self) -> bool:
        """Tell whether each deployment has a size and gets it in the whole week, as far as pools say what they have."""
        return not self.impossible and all(pool.week.fits is not False for pool in self.pools)


def plan_of(
    documents: Documents,
    pools: Mapping[str, GPUPool],
    benchmarks: Iterable[BenchmarkProfile],
    traces: Traces,
    growth: float = 1.0,
) -> Plan:
    """Plan a week for all deployments of the documents in these pools.

    Raises `InvalidInput` for a deployment that has no pool, and for the trace of one that is not there.
    """
    everything = membership(documents, pools, benchmarks, growth)
    _check_names(traces, everything.members)
    loads = {m.uid: load_of(m, traces, growth) for m in everything.members}
    planned = []
    for pool in everything.pools:
        week = pool_week(pool, members_of(pool, everything.members), loads)
        planned.append(PoolPlan(week, week_cost(week), base_and_burst(week, everything.pools)))
    return Plan(everything.members, tuple(planned), growth)


def _check_names(traces: Traces, members: Iterable[Member]) -> None:
    known = {name for m in members for name in (m.uid, m.resource.name)}
    if unknown := [name for name in traces.own if name not in known]:
        raise InvalidInput("--trace", f"there is no InferenceDeployment {unknown[0]}", "name one that is there")
