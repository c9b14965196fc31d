"""A plan as a picture: the GPUs that the deployments of each pool need over the week, stacked, against the pool."""

from __future__ import annotations

from firsttoken_lab.plan.load import SLOT_SECONDS
from firsttoken_lab.plan.plan import Plan, PoolPlan
from firsttoken_lab.plan.report import NOTES, sentences, verdict
from firsttoken_sizing.report.figure import Axis, Figure, LimitLine, Panel, Series

_DAYS = Axis("days from Monday, 00:00 UTC")


def plan_figure(plan: Plan) -> Figure:
    """The figure, a panel for each pool with something in it."""
    grown = f", loads x {plan.growth:g}" if plan.growth != 1 else ""
    return Figure(
        title=f"Load of the week against the pools{grown}",
        panels=tuple(_panel(pool) for pool in plan.pools if pool.week.members),
        notes=(*sentences(plan), *NOTES),
        verdict=verdict(plan),
    )


def _panel(pool: PoolPlan) -> Panel:
    week = pool.week
    days = tuple(slot * SLOT_SECONDS / 86_400 for slot in range(len(week.gpus) + 1))
    series = tuple(
        Series(member.uid, member.uid, days, (*map(float, needs), float(needs[-1])), color)
        for color, (member, needs) in enumerate(zip(week.members, week.needs.tolist(), strict=True))
    )
    limits = []
    if week.pool.gpus is not None:
        limits.append(LimitLine(f"{pool.name} has {week.pool.gpus}", float(week.pool.gpus), vertical=False))
    if pool.split is not None and 0 < pool.split.base_gpus != week.pool.gpus:
        limits.append(LimitLine(f"own {pool.split.base_gpus}, rent above", float(pool.split.base_gpus), vertical=False))
    return Panel(_DAYS, Axis("GPUs"), series, tuple(limits), title=pool.name, stacked=True)
