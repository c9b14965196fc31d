"""Sentences on when a pool is short: days that are alike are one sentence, and long times have their days."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from firsttoken_lab.plan.plan import Plan, PoolPlan
from firsttoken_lab.plan.report import sentences, verdict
from firsttoken_lab.plan.week import Lack, PoolWeek, ShortTime
from tests.lab.plan.test_a_week_is_shared_by_the_ledger import member, on_prem, week

DAY = 96
LACK = Lack("shop/chat", 3, 0.5, "P95 TTFT 0.5 s for shop/chat")


def plan(*times: tuple[int, int]) -> Plan:
    """One pool that is short by 3 GPUs at these times, in quarters of an hour."""
    quiet: PoolWeek = week(on_prem(16), (member("a", 1), None))
    short = tuple(ShortTime(begin, end, 19, 3, (LACK,)) for begin, end in times)
    return Plan((), (PoolPlan(replace(quiet, short_times=short), None, None),), 1.0)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([(day * DAY + 52, day * DAY + 60) for day in range(7)], ["every day from 13:00 to 15:00 UTC"]),
        ([(52, 60), (DAY + 52, DAY + 60)], ["on Mon, Tue from 13:00 to 15:00 UTC"]),
        ([(52, 60), (DAY + 52, DAY + 61)], ["on Mon from 13:00 to 15:00 UTC", "on Tue from 13:00 to 15:15 UTC"]),
        ([(6 * DAY + 88, 7 * DAY)], ["on Sun from 22:00 to 00:00 UTC"]),
        ([(88, DAY + 24)], ["on Mon from 22:00 to 06:00 UTC"]),
        ([(52, 2 * DAY + 4)], ["from Mon 13:00 to Wed 01:00 UTC"]),
        ([(0, 7 * DAY)], ["all week"]),
    ],
)
def test_a_time_is_said_as_a_person_would(times: list[tuple[int, int]], said: list[str]) -> None:
    words = [f"h100 is short by 3 GPUs {when}: shop/chat lacks 3 (P95 TTFT 0.5 s)." for when in said]

    assert list(sentences(plan(*times))) == words


def test_many_times_are_not_all_said() -> None:
    told = list(sentences(plan(*((at, at + 1) for at in range(0, 60, 4)))))

    assert len(told) == 11
    assert told[-1] == "h100: and at 5 other times; -o json lists all."


def test_the_verdict_names_the_hours_and_what_has_no_size() -> None:
    short = plan((52, 60))
    hasty = SimpleNamespace(uid="shop/hasty", sizing=SimpleNamespace(feasible=False))

    assert verdict(plan()) == "Everything fits in every hour of the week."
    assert verdict(short) == "It does not fit: h100 is short in 2 hours of the week."
    assert verdict(replace(short, members=(cast(Any, hasty),))) == (
        "It does not fit: h100 is short in 2 hours of the week; shop/hasty has no size that meets its SLA."
    )
