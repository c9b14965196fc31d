"""A request of twice the tokens is twice the load: live token means weigh what arrives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.domain import Idle, Measurement, Metrics, Missing, Reason, Value
from firsttoken_operator.estimate import DEFAULT
from tests.operator.decide.builders import SIZED, TICK_SECONDS, WORK, Fleet, metrics, worked_table

SIZED_WITH_WORK = replace(SIZED, table=worked_table())
UNKNOWN = Missing(Reason.NO_SERIES)
PROMPT, OUTPUT = WORK.input_tokens, WORK.output_tokens

SMOOTHING_SECONDS = 60 * DEFAULT.demand.smoothing_windows


def requests(rate: float, prompt: Measurement, output: Measurement) -> Metrics:
    return metrics(rate, input_tokens=prompt, output_tokens=output)


def weighing(factor: float) -> tuple[Value, Value]:
    """Lengths of a request that costs `factor` times the declared one: a prompt as declared, or shorter."""
    cost = factor * WORK.declared_seconds
    prompt = PROMPT * min(factor, 1.0)
    prefill = WORK.seconds_per_prefill_token * prompt
    return Value(prompt), Value(1 + (cost - prefill) / WORK.seconds_per_output_token)


def fleet(replicas: int = 20) -> Fleet:
    return Fleet(replicas=replicas, sized=SIZED_WITH_WORK)


def ratio(of: Fleet) -> float:
    return of.known.demand.request_cost


@pytest.mark.parametrize(("factor", "replicas"), [(1.0, 20), (1.5, 30), (2.0, 40)])
def test_longer_requests_at_the_same_rate_need_more_replicas(factor: float, replicas: int) -> None:
    assert fleet().tick(requests(100.0, *weighing(factor))).recommended == replicas


def test_the_first_live_value_is_taken_as_it_is() -> None:
    known = fleet()
    known.tick(requests(50.0, *weighing(1.7)))

    assert ratio(known) == pytest.approx(1.7)


def test_later_values_are_smoothed_and_followed_within_minutes() -> None:
    known = fleet()
    known.tick(requests(50.0, *weighing(1.0)))
    known.tick(requests(50.0, *weighing(2.0)))
    after_one = ratio(known)
    known.run(requests(50.0, *weighing(2.0)), 3 * SMOOTHING_SECONDS)

    assert 1 < after_one < 1 + 2 * TICK_SECONDS / SMOOTHING_SECONDS
    assert ratio(known) == pytest.approx(2, abs=0.06)


@pytest.mark.parametrize(
    ("prompt", "output"),
    [(UNKNOWN, UNKNOWN), (Value(PROMPT * 3), UNKNOWN), (UNKNOWN, Value(OUTPUT * 3)), (Idle(), Idle())],
    ids=["both", "outputs", "prompts", "none came"],
)
def test_lengths_that_are_not_measured_are_the_declared_ones(prompt: Measurement, output: Measurement) -> None:
    known = fleet()

    assert known.tick(requests(100.0, prompt, output)).recommended == 20
    assert ratio(known) == 1


def test_lengths_that_go_missing_stay_what_they_were() -> None:
    known = fleet()
    known.tick(requests(50.0, *weighing(1.5)))
    known.run(metrics(50.0, input_tokens=UNKNOWN, output_tokens=UNKNOWN), 3600)

    assert ratio(known) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("factor", "bound"), [(1e6, DEFAULT.demand.most_request_cost), (1e-6, 1 / DEFAULT.demand.most_request_cost)]
)
def test_an_absurd_mean_is_an_accident(factor: float, bound: float) -> None:
    known = fleet()
    known.tick(requests(10.0, *weighing(factor)))

    assert ratio(known) == bound


def test_without_the_cost_of_tokens_a_request_is_a_request() -> None:
    known = Fleet(replicas=20)

    assert known.tick(requests(100.0, *weighing(3.0))).recommended == 20


def test_the_backlog_weighs_what_its_requests_weigh() -> None:
    light = fleet().tick(requests(50.0, *weighing(1.0))).recommended
    plain = fleet().tick(replace(requests(50.0, *weighing(1.0)), waiting=Value(600))).recommended
    heavy = fleet().tick(replace(requests(50.0, *weighing(2.0)), waiting=Value(600))).recommended

    assert (light, plain, heavy) == (10, 12, 24)


def test_the_decision_says_that_requests_are_heavier_than_declared() -> None:
    assert "each counted as 1.50 declared ones" in fleet().tick(requests(100.0, *weighing(1.5))).message
    assert "declared ones" not in fleet().tick(requests(100.0, *weighing(1.0))).message


def test_another_benchmark_asks_for_the_lengths_anew() -> None:
    known = fleet()
    known.tick(requests(50.0, *weighing(3.0)))
    known.sized = replace(SIZED, table=worked_table(4.0))
    known.tick(requests(50.0, *weighing(1.2)))

    assert ratio(known) == pytest.approx(1.2)
