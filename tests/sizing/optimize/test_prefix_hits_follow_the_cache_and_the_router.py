"""A sizing whose traffic says how many beginnings of prompts are in use, beside one with all of them in the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_sizing import Arrivals, Hardware, Limit, Percentile, Routing, Sizing, SizingRequest, Sla, Workload, size
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Point
from firsttoken_sizing.report.curves import study
from firsttoken_sizing.report.document import sizing_json
from firsttoken_sizing.simulation.subject import Subject, subject_of
from firsttoken_sizing.step.model import StepModel
from tests.fixtures.worked_examples import H100, LLAMA_8B

CACHED = 60


def question(
    in_use: int | None, routing: Routing = Routing.RANDOM, each: float | None = None, gpus: str = H100
) -> SizingRequest:
    return SizingRequest(
        model=LLAMA_8B,
        precision="FP8",
        workload=Workload(
            3000,
            200,
            cached_input_percent=CACHED,
            prefixes_in_use=in_use,
            requests_per_prefix=each,
            peak_requests_per_second=100,
            routing=routing,
        ),
        sla=Sla(time_to_first_token=Limit(500, Percentile.P95), inter_token_latency=Limit(50, Percentile.MEAN)),
        hardware=Hardware(gpus=(gpus,), tensor_parallel=1),
    )


def sized(in_use: int | None, routing: Routing = Routing.RANDOM, each: float | None = None, gpus: str = H100) -> Sizing:
    sizing = size(question(in_use, routing, each, gpus))
    assert sizing.feasible
    return sizing


def test_what_is_in_use_and_fits_is_cached_and_what_does_not_is_computed() -> None:
    all_cached, none_cached = sized(None), size(replace_cached(question(None), 0.0))

    assert all_cached.cached_input_percent == pytest.approx(CACHED)
    assert sized(1).cached_input_percent == pytest.approx(CACHED, rel=0.01)
    assert sized(1).replicas == all_cached.replicas
    assert sized(10**7).cached_input_percent < 1
    assert sized(10**7).replicas == none_cached.replicas > all_cached.replicas


def replace_cached(request: SizingRequest, percent: float) -> SizingRequest:
    return replace(request, workload=replace(request.workload, cached_input_percent=percent))


@pytest.mark.slow
def test_the_hits_are_between_none_and_all_and_fall_with_what_is_in_use() -> None:
    answers = [sized(in_use) for in_use in (20, 200, 800, 3200)]

    hits = [answer.cached_input_percent for answer in answers]
    assert hits == sorted(hits, reverse=True)
    assert CACHED >= hits[0] > hits[1] > hits[-1] > 0
    assert [a.replicas for a in answers] == sorted(a.replicas for a in answers)


@pytest.mark.slow
def test_a_router_that_knows_prefixes_saves_replicas() -> None:
    random, aware = sized(300), sized(300, Routing.PREFIX_AWARE)

    assert aware.cached_input_percent > random.cached_input_percent + 10
    assert aware.replicas < random.replicas
    conversations = sized(300, each=3.0)
    assert conversations.cached_input_percent < random.cached_input_percent
    assert sized(300, Routing.PREFIX_AWARE, each=3.0).cached_input_percent > conversations.cached_input_percent


@pytest.mark.slow
def test_a_size_that_holds_for_one_replica_is_enough_at_every_load() -> None:
    request = replace(question(300, Routing.PREFIX_AWARE), fewest_replicas=1)
    table = size(request).table
    assert table is not None

    for rate in (1.0, 10.0, 30.0, 60.0):
        own = size(
            replace(
                question(300, Routing.PREFIX_AWARE), workload=replace(request.workload, peak_requests_per_second=rate)
            )
        )
        assert table.replicas_for(rate) >= own.replicas


@pytest.mark.slow
def test_the_hits_of_the_peak_say_nothing_of_the_average() -> None:
    peak = question(300, Routing.PREFIX_AWARE)
    request = replace(peak, workload=replace(peak.workload, average_requests_per_second=20.0))

    assert size(request).replicas_for_average is None
    assert size(replace(request, fewest_replicas=1)).replicas_for_average is not None
    random = replace(request.workload, routing=Routing.RANDOM)
    assert size(replace(request, workload=random)).replicas_for_average is not None


@pytest.mark.slow
def test_a_gpu_with_more_memory_finds_more() -> None:
    assert sized(300, gpus="H200-SXM-141GB").cached_input_percent > sized(300).cached_input_percent


@pytest.mark.slow
def test_curve_and_simulation_are_of_the_same_hits() -> None:
    request = question(300)
    sizing = size(request)
    assert sizing.configuration is not None

    subject = subject_of(request, sizing.configuration, sizing.batching)
    drawn = next(curve for curve in study(request).curves if curve.chosen)

    assert isinstance(subject, Subject)
    assert subject.lengths.cached_input_percent == pytest.approx(sizing.cached_input_percent)
    assert sizing_json(sizing)["cachedInputPercent"] == pytest.approx(sizing.cached_input_percent, abs=1e-6)
    near = min(drawn.points, key=lambda p: abs(p.requests_per_second - sizing.requests_per_second_per_replica))
    assert near.ttft.mean is not None


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
@pytest.mark.parametrize("change", [{"concurrent_requests": 400}, {"peak_requests_per_second": 0.01}], ids=str)
def test_every_form_of_the_peak_has_hits(arrivals: Arrivals, change: dict[str, float]) -> None:
    asked = question(10_000, Routing.PREFIX_AWARE)
    workload = (
        replace(asked.workload, peak_requests_per_second=None) if "concurrent_requests" in change else asked.workload
    )
    answer = size(replace(asked, arrivals=arrivals, workload=replace(workload, **change)))

    assert 0 < answer.cached_input_percent < CACHED


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prefixes_in_use": 0}, "traffic.prefixesInUse"),
        ({"cached_input_percent": 0.0}, "traffic.cachedInputPercent"),
        ({"requests_per_prefix": 1.0}, "traffic.requestsPerPrefix"),
        ({"requests_per_prefix": 1_000_001.0}, "traffic.requestsPerPrefix"),
        ({"requests_per_prefix": 4.0, "prefixes_in_use": None}, "traffic.prefixesInUse"),
    ],
    ids=str,
)
def test_prefixes_that_cannot_be_are_refused(change: dict[str, float | None], field: str) -> None:
    asked = question(300)

    with pytest.raises(InvalidInput, match=field):
        size(replace(asked, workload=replace(asked.workload, **change)))


@pytest.mark.parametrize("routing", [Routing.RANDOM, Routing.LEAST_LOADED], ids=str)
def test_hits_cost_no_more_than_a_second_evaluation(routing: Routing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of load that are predicted in one sizing, with and without a cache that holds a part."""
    predicted: list[float] = []
    predict = poisson.predict

    def counted(step: StepModel, lengths: Lengths, rate: float, *others: Any) -> Point:
        predicted.append(rate)
        return predict(step, lengths, rate, *others)

    monkeypatch.setattr(poisson, "predict", counted)
    sized(None, routing)
    plain = len(predicted)
    predicted.clear()
    sized(300, routing)

    assert 0 < plain < len(predicted) <= 3 * plain


def test_hits_that_carry_no_load_are_no_answer_where_more_of_them_leave_themselves() -> None:
    workload = replace(
        question(40).workload, input_tokens=20_000, output_tokens=200, cached_input_percent=90.0,
        peak_requests_per_second=20.0,
    )  # fmt: skip
    sla = Sla(time_to_first_token=Limit(200.0, Percentile.MEAN))
    asked = replace(question(40), model="meta-llama/Llama-3.1-8B-Instruct", workload=workload, sla=sla)
    as_many = replace(asked, workload=replace(workload, prefixes_in_use=None, cached_input_percent=67.5))

    found = size(asked)

    assert found.cached_input_percent > 67.5
    assert 0 < found.replicas <= size(as_many).replicas
