"""Prompts longer than declared make more requests late: some on any fleet, and others because they wait behind them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Missing, Reason, Value
from firsttoken_operator.estimate import DEFAULT, Calibration, irreducible_miss_rate
from firsttoken_operator.estimate.irreducible_misses import IrreducibleMisses
from firsttoken_operator.estimate.replica_speed import ReplicaSpeed
from tests.operator.decide.builders import SIZED, WORK, Fleet, late, metrics, worked_table
from tests.operator.estimate.reading import WAIT_SECONDS

pytestmark = pytest.mark.slow


SIZED_WITH_WORK = replace(SIZED, table=worked_table())
"""Sizing of 20 replicas of 5 requests a second; P95 of TTFT within 300 ms, a declared prompt takes 60."""
OUTPUT = Value(WORK.output_tokens)
NOTHING_LEARNED = Calibration()


def long(times: float) -> Value:
    return Value(times * WORK.input_tokens)


def share(times: float, known: Calibration = NOTHING_LEARNED) -> float:
    seen = metrics(50, input_tokens=long(times), output_tokens=OUTPUT)
    return irreducible_miss_rate(known, seen, SIZED_WITH_WORK, DEFAULT)


def test_the_longer_the_prompts_the_more_are_late_whatever_the_fleet() -> None:
    shares = [share(times) for times in (0.5, 1.0, 1.5, 2.0, 4.0)]

    assert shares == sorted(shares)
    assert shares[0] < 0.01 < shares[2]


def test_never_more_than_half_are_explained_by_their_length() -> None:
    assert share(1000.0) == 0.5


def test_slow_replicas_make_more_prompts_late_by_themselves() -> None:
    slow = Calibration(ReplicaSpeed(-1.0, 1e6))

    assert share(2.0, slow) > share(2.0)


def test_what_idle_replicas_showed_counts_where_it_is_more() -> None:
    assert share(1.0, Calibration(irreducible=IrreducibleMisses(0.3))) == 0.3


def test_without_lengths_only_idle_replicas_tell() -> None:
    unknown = metrics(50, input_tokens=Missing(Reason.NO_SERIES), output_tokens=OUTPUT)

    known = Calibration(irreducible=IrreducibleMisses(0.01))

    assert irreducible_miss_rate(known, unknown, SIZED_WITH_WORK, DEFAULT) == 0.01


def watched(times: float, late_share: float) -> float:
    """Capacity factor after four hours of replicas that are full with prompts of this length."""
    fleet = Fleet(replicas=20, sized=SIZED_WITH_WORK)
    rate = 98.0 / (worked_cost(times) * max(times, 1.0) ** DEFAULT.demand.long_prompt_exponent)
    seen = metrics(
        rate, input_tokens=long(times), output_tokens=OUTPUT, ttft=late(late_share),
        running=Missing(Reason.NO_SERIES),
    )  # fmt: skip
    for _ in range(round((WAIT_SECONDS + 4 * 3600) / 15)):
        fleet.tick(seen, apply=False)
    return fleet.capacity_factor


def worked_cost(times: float) -> float:
    return WORK.relative(times * WORK.input_tokens, WORK.output_tokens)


def test_what_long_prompts_foretell_does_not_lower_the_capacity() -> None:
    foretold = share(2.0)

    assert watched(2.0, foretold) >= 1
    assert watched(1.0, foretold) < 1


def test_more_than_that_still_does() -> None:
    assert watched(2.0, min(share(2.0) + 0.2, 1.0)) < 1


@pytest.mark.parametrize(("times", "late_share"), [(1.0, 0.12), (2.0, 0.1), (3.0, 0.25), (3.0, 0.45)])
def test_more_late_than_the_sla_allows_never_raise_the_capacity(times: float, late_share: float) -> None:
    assert watched(times, late_share) <= 1


def test_at_the_declared_length_nothing_is_excused() -> None:
    assert share(1.0) == 0


@pytest.mark.parametrize("times", [0.5, 1.0])
def test_prompts_up_to_the_declared_length_count_for_what_they_cost(times: float) -> None:
    fleet = Fleet(replicas=20, sized=SIZED_WITH_WORK)
    fleet.tick(metrics(50, input_tokens=long(times), output_tokens=OUTPUT))

    assert fleet.known.demand.request_cost == pytest.approx(worked_cost(times))


def test_longer_ones_count_for_the_waits_behind_them_as_well() -> None:
    fleet = Fleet(replicas=20, sized=SIZED_WITH_WORK)
    fleet.tick(metrics(50, input_tokens=long(2.0), output_tokens=OUTPUT))

    assert fleet.known.demand.request_cost == pytest.approx(worked_cost(2.0) * 2**DEFAULT.demand.long_prompt_exponent)
