"""Calibration as the status shows it: what a restarted operator takes over of what live traffic showed. Pure.

It moves with every tick, so it is told with whatever else is written. Alone it is news only where a restart would
forget a reason for care.
"""

from __future__ import annotations

import math

from firsttoken_operator.act.figures import HYSTERESIS, rounded
from firsttoken_operator.api.quantities import MAX_INTEGER
from firsttoken_operator.api.status import CalibrationStatus
from firsttoken_operator.decide import calibration_state
from firsttoken_operator.domain import Decision, Reason

FALL_MARGIN = 0.02
"""Share by which a capacity that fell is told lower than it is."""
TAIL_FALL, TAIL_RISE = 0.05, 0.15
"""Shares by which the tail alone, which is what a restart takes over, may move unsaid while its product with the speed
stays: a speed that is measured again would give back what was learned, or count twice."""
BUDGET_PERCENT = 100
"""Late budget that is aimed at: only more than that is remembered over a restart."""


def shown(previous: CalibrationStatus | None, decision: Decision) -> CalibrationStatus:
    """Show what is known now, so that a restart takes over no more capacity and no less spent budget than there is."""
    before = previous or CalibrationStatus()
    factor = decision.capacity_factor
    state, percent, told = calibration_state(factor), _factor_percent(factor), before.service_factor_percent
    lower = math.floor(percent * (1 - FALL_MARGIN))
    if told is not None and percent < told and state is calibration_state(lower / 100) is Reason.LEARNED:
        percent = lower  # It may go on falling: so far without another write.
    return CalibrationStatus.remade(
        previous,
        state=state.value,
        service_factor_percent=percent,
        speed_percent=round(100 * decision.replica_speed),
        late_budget_spent_percent=_spent(before.late_budget_spent_percent, decision.late_budgets_spent),
        samples=before.samples if decision.capacity_samples is None else rounded(decision.capacity_samples),
    )


def is_news(told: CalibrationStatus, decision: Decision) -> bool:
    """Tell whether a restart would now remember less than it should: a capacity that fell, or an overspent budget.

    Of the capacity a restart takes over the factor without the speed, which it measures again:

    | told: factor, speed | now | the rest, told and now | news |
    |---|---|---|---|
    | 90 %, 95 % | 97 %, 105 % | 0.95, 0.92 | no |
    | 50 %, 50 % | 70 %, 100 % | 1.00, 0.70 | yes: after a restart it would be 100 % |
    | 70 %, 100 % | 70 %, 75 % | 0.70, 0.93 | yes: after a restart it would be 52 % |
    """
    percent = _factor_percent(decision.capacity_factor)
    falls = told.service_factor_percent is None or percent < min(told.service_factor_percent, 100)
    falls = falls or _tail_moved(told, percent, round(100 * decision.replica_speed))
    budget, spent = told.late_budget_spent_percent, _spent(told.late_budget_spent_percent, decision.late_budgets_spent)
    return falls or (budget != spent and (budget is None or spent is None or max(budget, spent) > BUDGET_PERCENT))


def _tail_moved(told: CalibrationStatus, percent: int, speed_percent: int) -> bool:
    before = min(1.0, (told.service_factor_percent or 100) / (told.speed_percent or 100))
    now = min(1.0, percent / (speed_percent or 100))
    return not before * (1 - TAIL_FALL) <= now <= before * (1 + TAIL_RISE)


def _factor_percent(factor: float) -> int:
    # NB: rounded down, because after a restart the capacity is what is written here: it must not be more than it was.
    return 100 if calibration_state(factor) is Reason.AS_SIZED else math.floor(100 * factor + 1e-6)


def _spent(before: int | None, budgets: float | None) -> int | None:
    """Late budget. What is overspent is rounded up, because after a restart what is written here is what was spent.

    It stays while less than that was spent by no more than chance makes.
    """
    if budgets is None:
        return None
    percent = math.ceil(100 * budgets - 1e-6)
    if max(before or 0, percent) <= BUDGET_PERCENT:
        return percent
    if before is not None and 0 <= before - percent <= 2 * HYSTERESIS * max(before, BUDGET_PERCENT):
        return before
    return percent if percent <= BUDGET_PERCENT else min(math.ceil(percent * (1 + HYSTERESIS)), MAX_INTEGER)
