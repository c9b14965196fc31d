"""The scorecard as the status shows it, and back: the status is what a restarted operator goes on from. Pure.

It is written once an hour, each resource's in a second of its own, and when a figure is known for the first time.
What was counted after the last writing is lost with the process; `hours` says how much time the figures really cover.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from zlib import crc32

from firsttoken_operator.act.conditions import instant, timestamp
from firsttoken_operator.act.scorecard import Change, Scorecard, Tally
from firsttoken_operator.api.quantities import MAX_INTEGER, decimal_string, number
from firsttoken_operator.api.scorecard import MAX_REQUESTS, ScorecardDay, ScorecardFigures, ScorecardStatus
from firsttoken_operator.api.status import InferenceDeploymentStatus

REFRESH = timedelta(hours=1)
LEAST_APART = REFRESH / 2
"""Time from a writing for a first figure to the next hourly one."""


def shown(
    previous: ScorecardStatus | None, card: Scorecard | None, now: datetime, uid: str = ""
) -> ScorecardStatus | None:
    """Show what the status says now: `previous` until an hour is over or it lacks a figure that is known by now.

    Hours begin at the second that belongs to `uid`, so that a fleet's are not all due at once.
    """
    if card is None or not card.days:
        return previous
    # NB: the figures take longer than all else here, and are asked for once an hour.
    due = previous is None or _is_due(previous, now, uid)
    lacking = [] if previous is None else [n for n in ScorecardFigures.model_fields if getattr(previous, n) is None]
    if not due and not lacking:
        return previous
    figures = _figures(card.total)
    if not due and all(figures[name] is None for name in lacking):
        return previous
    burned = card.total.burn_rate
    days = [{"date": at.isoformat(), **_figures(tally)} for at, tally in card.days.items()]
    about: dict[str, object] = {"since": timestamp(card.since), "last_update_time": timestamp(now), "days": days}
    about["error_budget_remaining_percent"] = None if burned is None else _budget_left(burned)
    return ScorecardStatus.model_validate(about | figures)


def restored(status: InferenceDeploymentStatus, now: datetime) -> Scorecard:
    """The scorecard to go on with from a status that an operator wrote before; a new one where there is none."""
    written = status.scorecard or ScorecardStatus()
    found = ((_day(day.date), day) for day in written.days)
    days = {at: _tally(day) for at, day in found if at is not None}
    return Scorecard(
        since=instant(written.since) or now,
        days=dict(sorted(days.items(), reverse=True)),
        last_change=_last_change(status),
    )


def _is_due(previous: ScorecardStatus, now: datetime, uid: str) -> bool:
    written = instant(previous.last_update_time)
    # NB: a clock that was set back must not keep the figures from being written until it has caught up.
    if written is None or now < written:
        return True
    own = timedelta(seconds=crc32(uid.encode()) % REFRESH.total_seconds())
    return _hour(now, own) > _hour(written + LEAST_APART, own)


def _hour(at: datetime, own: timedelta) -> int:
    return int((at - own).timestamp() // REFRESH.total_seconds())


def _figures(tally: Tally) -> dict[str, object]:
    """The fields of `ScorecardFigures`; what nothing is known of is None."""
    watched, judged, compared = tally.hours > 0, tally.requests > 0, tally.compared_requests > 0
    budgeted = tally.late_requests_allowed > 0
    error = tally.calibration_error
    return {
        "hours": _amount(tally.hours) if watched else None,
        "attainment_percent": None if tally.attainment is None else _percent_down(tally.attainment),
        "requests": _whole(tally.requests) if judged else None,
        "late_requests": _whole(tally.late_requests) if judged else None,
        "late_requests_at_most": _whole(tally.late_requests_at_most) if judged else None,
        "late_requests_allowed": _amount(tally.late_requests_allowed) if budgeted else None,
        "late_requests_charged": _amount(tally.late_requests_charged) if budgeted else None,
        "burn_rate": None if tally.burn_rate is None else _amount(tally.burn_rate, 2),
        "gpu_hours": _amount(tally.gpu_hours) if watched else None,
        "gpu_hours_saved_versus_peak": None if tally.saved_gpu_hours is None else _amount(tally.saved_gpu_hours),
        "calibration_error_percent": None if error is None else _amount(100 * error, 1),
        "compared_requests": _whole(tally.compared_requests) if compared else None,
        "flaps": min(tally.flaps, MAX_INTEGER) if watched or tally.flaps else None,
    }


def _tally(day: ScorecardDay) -> Tally:
    requests, compared = float(day.requests or 0), float(day.compared_requests or 0)
    late = float(day.late_requests or 0)
    at_most = late if day.late_requests_at_most is None else float(day.late_requests_at_most)
    allowed, charged = number(day.late_requests_allowed), number(day.late_requests_charged)
    if allowed is None or charged is None:
        # NB: one without the other, as other versions wrote it, says nothing of an error budget.
        allowed = charged = 0.0
    saved = day.gpu_hours_saved_versus_peak
    return Tally(
        hours=number(day.hours) or 0.0,
        gpu_hours=number(day.gpu_hours) or 0.0,
        saved_gpu_hours=None if saved is None else float(saved),
        requests=requests,
        late_requests=min(late, requests),
        late_requests_at_most=min(at_most, requests),
        late_requests_allowed=min(allowed, requests),
        late_requests_charged=min(charged, requests),
        compared_requests=compared,
        error_requests=compared * (number(day.calibration_error_percent) or 0.0) / 100,
        flaps=day.flaps or 0,
    )


def _last_change(status: InferenceDeploymentStatus) -> Change | None:
    if not status.decisions:
        return None
    last = status.decisions[0]
    at = instant(last.time)
    return Change(at, last.to_replicas > last.from_replicas) if at else None


def _percent_down(share: float) -> str:
    """Write a share in percent with two decimals, rounded down: 99.996 % is not 100 %."""
    return decimal_string(max(0.0, math.floor(1e4 * share + 1e-6) / 100), 2)


def _budget_left(burned: float) -> str:
    """Write what is left of an error budget in percent with one decimal, rounded down: used up is not 0.04 %."""
    left = max(1 - burned, -float(MAX_INTEGER))
    return _amount(100 * math.floor(1e3 * left + 1e-6) / 1e3, 1)


def _amount(value: float, decimals: int = 3) -> str:
    bounded = max(-float(MAX_INTEGER), min(float(MAX_INTEGER), value))
    # NB: adding 0.0 takes the sign from what rounds to zero: "-0" is no saving.
    return decimal_string(round(bounded, decimals) + 0.0, decimals)


def _whole(requests: float) -> int:
    return min(round(requests), MAX_REQUESTS)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
