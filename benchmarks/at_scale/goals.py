"""Goals of the benchmark: what the issue of many resources asks, at the sizes that it is asked of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from at_scale.figures import AUTOSCALER, CONTROLLER_MANAGER, YARDSTICK, AutoscalerFigures, Spent
from at_scale.profiling import Part

GOALS_UP_TO = 2000
"""Resources up to which the goals below are asked; beyond, the figures only say."""
BESIDE_UP_TO = 100
"""Resources up to which less CPU than the peer's is asked."""
BUDGET_MILLISECONDS = {
    Part.WATCH: 0.3,
    Part.MEASURE: 1.2,
    Part.DECIDE: 1.0,
    Part.WRITE: 0.7,
    Part.SIZING: 0.1,
    Part.METRICS: 0.4,
    Part.LOOP: 1.0,
}
"""CPU of one resource and tick by part, while nothing happens: what was measured at 2,000, and a third more.

Of a CPU on which the yardstick takes `YARDSTICK_MILLISECONDS`; another one has as many times more as that takes there.
"""
BUDGET_OF_ALL_MILLISECONDS = 3.5
"""The same of all parts together, which are not all at their most at once."""
YARDSTICK_MILLISECONDS = 1.95


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure and its bound. `value` is None where it was not measured or never came."""

    what: str
    value: float | None
    most: float
    unit: str

    @property
    def holds(self) -> bool:
        """True where the figure is there and inside the bound."""
        return self.value is not None and self.value <= self.most


def goals(ours: AutoscalerFigures) -> Iterator[Goal]:
    """Goals of the phases that were measured."""
    if ours.resources > GOALS_UP_TO:
        return
    if ours.step:
        yield Goal("step to write, p50", ours.step.delays.p50, 8.0, "s")
        yield Goal("step to write, p99", ours.step.delays.p99, 18.0, "s")
        yield Goal("never written", ours.step.delays.never, 0, "")
    if ours.quiet:
        yield Goal("queries", ours.quiet.queries_per_second, 1.0, "/s")
        yield Goal("CPU while quiet", ours.quiet.cores[AUTOSCALER], 0.5, "cores")
        yield Goal("memory while quiet", ours.quiet.megabytes[AUTOSCALER], 250.0, "MB")
        yield Goal("status writes while quiet", _status_writes(ours), 0.5, "a minute")
    if ours.onboarding:
        yield Goal("all have a decision on a size", _last(ours), 60.0, "s")
    if ours.restart:
        yield Goal("restart to first decisions", ours.restart.decided_seconds, 30.0, "s")
        yield Goal("lowered or flipped by a restart", ours.restart.lowered + sum(ours.restart.flipped.values()), 0, "")
    if ours.soak:
        yield Goal("memory grows", ours.soak.slope_per_hour, 1.0, "MB an hour")
    for what, spent in _all_spent(ours):
        if spent.health:
            yield Goal(f"/healthz other than 200, {what}", spent.health.others_than_200, 0, "")
    yield from _budgets(ours)


def _budgets(ours: AutoscalerFigures) -> Iterator[Goal]:
    """CPU by part where it was recorded, on this CPU."""
    taken = ours.profile.get("quiet", {})
    here = float(ours.about.get(YARDSTICK, YARDSTICK_MILLISECONDS)) / YARDSTICK_MILLISECONDS
    for part, most in BUDGET_MILLISECONDS.items():
        if part.value in taken:
            yield Goal(f"CPU of {part.value} a resource and tick", taken[part.value], most * here, "ms")
    if taken:
        total = sum(taken.values())
        yield Goal("CPU of all parts a resource and tick", total, BUDGET_OF_ALL_MILLISECONDS * here, "ms")


def beside(ours: AutoscalerFigures, peer: AutoscalerFigures) -> Iterator[Goal]:
    """Goals against the peer, of the same size in the same run."""
    if ours.quiet and peer.quiet and ours.resources <= BESIDE_UP_TO:
        mine, theirs = ours.quiet.cores, peer.quiet.cores
        # NB: the HorizontalPodAutoscaler is a part of a program that runs beside ours as well.
        own = mine[AUTOSCALER] + mine[CONTROLLER_MANAGER]
        yield Goal(f"CPU of the autoscaler beside {peer.name}'s", own, theirs[AUTOSCALER], "cores")
        server = "kube-apiserver"
        yield Goal(f"CPU of the API server beside {peer.name}'s", mine[server], theirs[server], "cores")


def missed(found: Sequence[Goal]) -> list[str]:
    """Lines about the goals that do not hold."""
    return [
        f"{goal.what}: {'not measured' if goal.value is None else f'{goal.value:g}'}, at most {goal.most:g} {goal.unit}"
        for goal in found
        if not goal.holds
    ]


def _status_writes(ours: AutoscalerFigures) -> float:
    assert ours.quiet is not None, "asked of a quiet phase"
    return sum(count for what, count in ours.quiet.writes_per_minute.items() if what.startswith("inferencedeployments"))


def _last(ours: AutoscalerFigures) -> float | None:
    assert ours.onboarding is not None, "asked of an onboarding"
    delays = ours.onboarding.sized or ours.onboarding.decided
    return delays.longest if not delays.never else None


def _all_spent(ours: AutoscalerFigures) -> Iterator[tuple[str, Spent]]:
    if ours.onboarding:
        yield "onboarding", ours.onboarding.spent
    if ours.quiet:
        yield "quiet", ours.quiet
    if ours.step:
        yield "step", ours.step.spent
    if ours.spread:
        yield "spread", ours.spread.spent
