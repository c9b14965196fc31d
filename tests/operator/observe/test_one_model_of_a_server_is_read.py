"""The model of a server that is read: no request is counted twice, and none is left out without a word."""

from __future__ import annotations

import pytest

from firsttoken_operator.domain import Metrics, Missing, Reason, Value
from firsttoken_operator.families import SERVED, Signal
from firsttoken_operator.observe.collect import PodSample
from firsttoken_operator.observe.measure import measure
from tests.operator.observe.readings import LIMIT, SETTINGS, pods, reading


def triton(**models: float) -> PodSample:
    """A server with these models, each with so many requests a second."""
    fresh = {Signal.AGE: 5.0, Signal.START_AGE: 65.0, Signal.SAMPLES: 4.0}
    return PodSample(
        "Triton",
        fresh | {Signal.WAITING: 0.0, Signal.WAITING_SLOPE: 0.0},
        models={name: PodSample("Triton", fresh, ended={SERVED: rate}) for name, rate in models.items()},
    )


def read(*servers: PodSample, wanted: str = "") -> Metrics:
    return measure(reading(*servers), pods(len(servers)), LIMIT, SETTINGS, wanted)


def arrivals(metrics: Metrics) -> float:
    assert isinstance(metrics.arrivals, Value), metrics
    return metrics.arrivals.value


@pytest.mark.parametrize("renamed", [1, 2, 3])
def test_a_model_that_a_rollout_gives_another_name_is_read_in_all_servers(renamed: int) -> None:
    """A demo whose real replica called its model otherwise saw three quarters of the load, and was too late."""
    old, new = (triton(llama_v1=10.0), triton(llama_v2=10.0))

    metrics = read(*[old] * (4 - renamed), *[new] * renamed)

    assert arrivals(metrics) == pytest.approx(40.0)
    assert Reason.SEVERAL_MODELS.value not in metrics.detail
    assert metrics.may_raise


def test_such_a_change_lowers_as_one_name_does() -> None:
    same, renamed = read(*[triton(a=10.0)] * 2), read(triton(a=10.0), triton(b=10.0))

    assert (renamed.health, renamed.may_lower) == (same.health, same.may_lower)


def test_a_model_beside_it_that_nothing_calls_is_no_other_one() -> None:
    metrics = read(triton(a=10.0, spare=0.0), triton(a=0.0, spare=0.0))

    assert arrivals(metrics) == pytest.approx(10.0)
    assert Reason.SEVERAL_MODELS.value not in metrics.detail


@pytest.mark.parametrize(
    "servers",
    [
        (triton(chain=10.0, answer=10.0), triton(chain=10.0, answer=10.0)),
        (triton(chain=10.0, answer=10.0), triton(other=10.0)),
        (triton(other=30.0), triton(chain=10.0, answer=10.0)),
        # Both have both, and clients of one call another: what is read of the second is not what it does.
        (triton(a=10.0, b=0.0), triton(a=0.0, b=9.0)),
    ],
)
def test_a_server_of_which_another_model_has_requests_says_so_and_lowers_nothing(
    servers: tuple[PodSample, PodSample],
) -> None:
    metrics = read(*servers)

    assert Reason.SEVERAL_MODELS.value in metrics.detail
    assert (metrics.may_raise, metrics.may_lower) == (True, False)


def test_a_name_that_only_some_servers_have_is_not_made_up_for_by_another() -> None:
    metrics = read(triton(a=10.0), triton(b=10.0), wanted="a")

    assert not metrics.may_lower


def test_a_name_that_no_server_has_is_missing() -> None:
    metrics = read(triton(a=10.0), triton(b=10.0), wanted="c")

    assert isinstance(metrics.arrivals, Missing) or not metrics.may_raise
    assert "spec.metrics.modelName" in metrics.detail
