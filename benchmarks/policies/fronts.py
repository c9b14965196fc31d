"""Fronts: the GPU-hours of each policy against what it attains, over the settings that its users have.

A peer's settings are the values of its tuning parameter; ours, the causal bound and the clairvoyant are asked for an
attainment. All under the usual conditions and one seed, so that policies are compared on the same requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from policies.cells import COLD_START_SECONDS, TARGET_PERCENT
from policies.contenders import ASKED, CLAIRVOYANT, TUNING_PARAMETERS
from policies.results import Outcome

_LEAST_MISSES_PERCENT = 1e-3


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of a policy, and what came of it."""

    setting: float
    attainment_percent: float
    gpu_hours: float


def points(outcomes: Sequence[Outcome], scenario: str, policy: str) -> list[Point]:
    """The settings that were played under the usual conditions with the first seed, by their value."""
    usual = [
        outcome
        for outcome in outcomes
        if (outcome.cell.scenario, outcome.cell.policy) == (scenario, policy)
        and outcome.cell.cold_start_seconds == COLD_START_SECONDS
        and not outcome.cell.capacity_error_percent
        and not outcome.cell.standby
    ]
    seed = min((outcome.cell.seed for outcome in usual), default=None)
    found = {
        setting: Point(setting, outcome.figures.attainment_percent, outcome.figures.gpu_hours)
        for outcome in usual
        if outcome.cell.seed == seed and (setting := _setting(outcome)) is not None
    }
    return [found[setting] for setting in sorted(found)]


def front(those: Sequence[Point]) -> list[Point]:
    """Those that no other one beats on both axes, by rising attainment."""
    kept: list[Point] = []
    for point in sorted(those, key=lambda each: (-each.attainment_percent, each.gpu_hours)):
        if not kept or point.gpu_hours < kept[-1].gpu_hours:
            kept.append(point)
    return kept[::-1]


def hours_at(those: Sequence[Point], attainment_percent: float) -> float | None:
    """GPU-hours on the front at this attainment; None where no setting attains it.

    Between two settings a straight line over the logarithm of the misses. Below the least that is on the front, the
    hours of that one: a setting that attains more for so many hours also attains this.
    """
    kept = front(those)
    above = next((number for number, each in enumerate(kept) if each.attainment_percent >= attainment_percent), None)
    if above is None:
        return None
    if not above:
        return kept[0].gpu_hours
    low, high = kept[above - 1], kept[above]
    at, begin, end = (_log_misses(percent) for percent in (
        attainment_percent, low.attainment_percent, high.attainment_percent
    ))  # fmt: skip
    share = 1.0 if begin == end else (at - begin) / (end - begin)
    return low.gpu_hours + share * (high.gpu_hours - low.gpu_hours)


def reference_hours(outcomes: Sequence[Outcome], scenario: str) -> float | None:
    """GPU-hours of the clairvoyant that is asked for what the SLA asks; None where it was not played."""
    asked = [each for each in points(outcomes, scenario, CLAIRVOYANT) if each.setting == TARGET_PERCENT]
    return asked[0].gpu_hours if asked else None


def _setting(outcome: Outcome) -> float | None:
    if outcome.cell.policy in ASKED:
        return outcome.cell.asked_percent
    return outcome.cell.tuning if outcome.cell.policy in TUNING_PARAMETERS else None


def _log_misses(attainment_percent: float) -> float:
    return math.log(max(100 - attainment_percent, _LEAST_MISSES_PERCENT))
