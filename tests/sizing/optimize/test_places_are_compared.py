from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.places import Place, bought_is_cheaper_from, cheapest, in_places
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.report.document import places_json
from firsttoken_sizing.report.places import places_sentences, places_table
from firsttoken_sizing.workload import Arrivals, Hardware, Pricing, Routing
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.worked_examples import DGX_H100, H100, call_center

OWN = Place("own", H100, DGX_H100, most_gpus=64)
RENTED = Place("rented", H100, Pricing(gpu_hour=4))


def test_each_place_is_what_a_sizing_there_would_say() -> None:
    request = replace(call_center(), hardware=Hardware(gpus=(H100, "H200-SXM-141GB")))
    larger = Place("larger", "H200-SXM-141GB", gpus_per_server=4)

    own, other = in_places(request, (OWN, larger))

    alone = size(replace(request, hardware=Hardware(gpus=(H100,)), pricing={H100: DGX_H100}))
    assert (own.sizing.gpus, own.sizing.cost) == (alone.gpus, alone.cost)
    assert other.sizing.cost is None
    assert other.sizing.configuration is not None
    assert other.sizing.configuration.gpu == "H200-SXM-141GB"


def test_the_break_even_is_where_both_cost_the_same() -> None:
    own, rented = in_places(call_center(), (OWN, RENTED))

    average = bought_is_cheaper_from(own, rented)

    # 39 replicas of one GPU in 5 servers: 595,000 a year; a rented one carries 5.1954 requests/s for 35,040 a year, so
    # that 16 of them cost less and 17 more.
    assert average == pytest.approx(16 * 5.1954)
    assert bought_is_cheaper_from(rented, own) is None
    dear = in_places(call_center(), (replace(OWN, pricing=replace(DGX_H100, server_price=32_000_000)), RENTED))
    assert bought_is_cheaper_from(*dear) is None


@given(
    peak=st.floats(1, 200),
    gpu_hour=st.floats(0, 20),
    server_price=st.floats(0, 1e6),
    routing=st.sampled_from(list(Routing)),
    arrivals=st.sampled_from(list(Arrivals)),
)
@settings(max_examples=examples(12), deadline=None)
def test_the_break_even_is_where_the_sizing_of_an_average_costs_as_much(
    peak: float, gpu_hour: float, server_price: float, routing: Routing, arrivals: Arrivals
) -> None:
    request = call_center(peak=peak, arrivals=arrivals)
    request = replace(request, workload=replace(request.workload, routing=routing, average_requests_per_second=None))
    places = (
        replace(OWN, most_gpus=None, pricing=replace(DGX_H100, server_price=server_price)),
        replace(RENTED, pricing=Pricing(gpu_hour=gpu_hour)),
    )
    own, rented = in_places(request, places)
    average = bought_is_cheaper_from(own, rented)
    assert own.per_year is not None
    assert rented.per_year is not None

    def rented_costs(average: float) -> float:
        asked = replace(request, workload=replace(request.workload, average_requests_per_second=average))
        (there,) = in_places(asked, places[1:])
        assert there.per_year is not None
        return there.per_year

    if average is None:
        assert rented.per_year <= own.per_year * (1 + 1e-6)
    else:
        if average > 0:
            assert rented_costs(0.999 * average) <= own.per_year * (1 + 1e-6)
        assert rented_costs(min(peak, average * 1.001 + 1e-3)) >= own.per_year * (1 - 1e-6)


def test_nothing_is_said_of_a_place_with_too_few_gpus_or_of_free_ones() -> None:
    few, rented = in_places(call_center(), (replace(OWN, most_gpus=8), RENTED))
    free, given_away = in_places(
        call_center(),
        (
            replace(OWN, pricing=Pricing(server_price=0, amortization_years=4)),
            replace(RENTED, pricing=Pricing(gpu_hour=0)),
        ),
    )

    assert bought_is_cheaper_from(few, rented) is None
    assert bought_is_cheaper_from(free, given_away) is None
    assert bought_is_cheaper_from(free, rented) == 0
    assert "own costs less than rented, autoscaled, at every load." in places_sentences((free, rented))


def test_the_cheapest_has_enough_gpus_and_prices_that_can_be_compared() -> None:
    own, rented = in_places(call_center(), (OWN, RENTED))
    assert cheapest((own, rented)) is rented  # at the average of 28.54 requests/s 6 replicas are enough
    few, _ = in_places(call_center(), (replace(OWN, most_gpus=8), RENTED))
    assert cheapest((few,)) is None
    euros = replace(RENTED, pricing=Pricing(gpu_hour=4, currency="EUR"))
    assert cheapest(in_places(call_center(), (OWN, euros))) is None
    assert cheapest(in_places(call_center(), (OWN, replace(RENTED, pricing=None)))) is None


def test_a_place_with_another_gpu_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^place cards: L40S is not one of hardware.gpus"):
        in_places(call_center(), (Place("cards", "L40S"),))


def test_what_one_gpu_cannot_do_is_the_answer_of_that_place_alone() -> None:
    old = Place("old", "A100-SXM-80GB", Pricing(gpu_hour=2))
    request = replace(call_center(), hardware=Hardware(gpus=(H100, old.gpu)), engine=Engine.TENSORRT_LLM)

    own, other = placed = in_places(request, (OWN, old))

    assert own.sizing.feasible
    assert not other.sizing.feasible
    assert "TensorRT-LLM does not run FP8 on A100" in other.sizing.reason
    assert cheapest(placed) is own
    assert any(sentence.startswith("old: model.precision") for sentence in places_sentences(placed))
    assert [document["feasible"] for document in places_json(placed)] == [True, False]
    emit = Console(file=io.StringIO(), width=200)
    emit.print(places_table(placed))
    with pytest.raises(InvalidInput, match="does not run FP8"):
        in_places(request, (old,))


@pytest.mark.parametrize("wrong", [replace(OWN, gpus_per_server=0), replace(OWN, pricing=Pricing(gpu_hour=-1))])
def test_numbers_of_a_place_that_are_none_are_refused(wrong: Place) -> None:
    with pytest.raises(InvalidInput):
        in_places(call_center(), (wrong, RENTED))
