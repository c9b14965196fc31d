"""The cheapest mix of the places that were sized side by side."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from firsttoken_sizing.optimize.places import Place, in_places
from firsttoken_sizing.optimize.together import Together, together
from firsttoken_sizing.report.together import together_json, together_sentences, together_table
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import Arrivals, OfflineJob, Pricing, Routing, Sla, SlaMode
from tests.fixtures.worked_examples import DGX_H100, H100, call_center

# One replica carries 5.1954 of 200 requests/s: 39 are needed, 38.496 exactly.
OWN = Place("own", H100, DGX_H100, most_gpus=32)
RENTED = Place("rented", H100, Pricing(gpu_hour=4, spot_gpu_hour=1.5), most_gpus=64)


def answered(*places: Place, percent: float = 100, request: SizingRequest | None = None) -> Together:
    answer = together(in_places(request or call_center(), places), percent)
    assert answer is not None
    return answer


def replicas(answer: Together) -> dict[str, int]:
    parts = answer.mix.parts if answer.mix else ()
    return {part.offer.place + (" spot" if part.offer.is_spot else ""): part.replicas for part in parts}


def shown(answer: Together) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(together_table(answer))
    return text.getvalue()


def test_servers_that_are_there_are_filled_and_the_rest_is_rented() -> None:
    answer = answered(OWN, RENTED)

    assert replicas(answer) == {"own": 32, "rented": 7}
    assert answer.mix is not None
    assert answer.mix.cost == pytest.approx(4 * 119_000 / 8760 + 7 * 4)
    assert answer.alone is not None
    assert (answer.alone.offer.place, answer.alone.cost) == ("rented", pytest.approx(39 * 4))
    assert answer.is_mixed
    assert [round(part["trafficPercent"], 2) for part in (together_json(answer) or {})["parts"]] == [82.05, 17.95]
    assert "less than rented alone." in shown(answer)


def test_a_floor_stays_when_spot_is_taken_back() -> None:
    answer = answered(RENTED, percent=60)

    # 60 % of the peak are 23.1 replicas.
    assert replicas(answer) == {"rented": 24, "rented spot": 15}
    document = together_json(answer)
    assert document is not None
    assert document["costPerHour"] == 24 * 4 + 15 * 1.5
    assert document["carriedPercentWithoutSpot"] == pytest.approx(100 * 24 * 5.1954 / 200, abs=0.01)
    assert [part["spot"] for part in document["parts"]] == [False, True]
    assert "When all of spot is taken back, the rest carries 62.3 % of the peak." in shown(answer)


def test_spot_is_not_offered_where_all_must_stay() -> None:
    answer = answered(RENTED)

    assert replicas(answer) == {"rented": 39}
    assert not answer.is_mixed
    assert list(together_sentences(answer)) == ["No mix of the pools costs less at the peak than rented alone."]


def test_places_that_are_too_small_alone_are_enough_together() -> None:
    answer = answered(replace(OWN, most_gpus=16), replace(RENTED, most_gpus=32))

    assert replicas(answer) == {"own": 16, "rented": 23}
    assert answer.alone is None
    assert answer.is_mixed
    assert "no pool has enough GPUs alone." in shown(answer)


def test_too_few_gpus_everywhere_are_said_with_what_they_carry() -> None:
    answer = answered(replace(OWN, most_gpus=8), replace(RENTED, most_gpus=8))

    assert answer.mix is None
    assert not answer.is_mixed
    # 16 of 38.496 replicas.
    assert shown(answer).strip() == "All pools together carry 41.56 % of the peak; add GPUs or a pool."
    document = together_json(answer)
    assert document is not None
    assert (document["feasible"], document["parts"], document["costPerHour"]) == (False, [], None)


@pytest.mark.parametrize("other", [None, Pricing(gpu_hour=4, currency="EUR")])
def test_gpus_are_counted_where_prices_cannot_be_compared(other: Pricing | None) -> None:
    answer = answered(OWN, replace(RENTED, pricing=other))

    assert answer.currency is None
    assert answer.mix is not None
    assert answer.mix.cost == answer.mix.gpus == 39
    assert (together_json(answer) or {})["costPerHour"] is None
    assert list(together_sentences(answer)) == ["No mix of the pools takes fewer GPUs at the peak than rented alone."]


def test_requests_in_flight_are_shared_as_a_rate_is() -> None:
    request = call_center(arrivals=Arrivals.CLOSED_LOOP)
    request = replace(
        request, workload=replace(request.workload, peak_requests_per_second=None, concurrent_requests=390)
    )

    assert replicas(answered(OWN, RENTED, request=request)) == {"own": 32, "rented": 7}


def test_a_router_that_evens_out_arrivals_takes_nothing_from_the_margin() -> None:
    request = call_center(arrivals=Arrivals.POISSON)
    request = replace(request, workload=replace(request.workload, routing=Routing.LEAST_LOADED))
    (placed,) = in_places(request, (RENTED,))
    answer = together((placed,), 50)

    assert answer is not None
    assert answer.mix is not None
    assert placed.sizing.table is not None
    assert sum(replicas(answer).values()) >= placed.sizing.table.replicas_for(200)


def test_a_mix_on_what_is_little_known_says_so() -> None:
    little_known = Place("cards", "L40S", Pricing(gpu_hour=0.1))
    request = replace(
        call_center(arrivals=Arrivals.POISSON), hardware=replace(call_center().hardware, gpus=(H100, "L40S"))
    )
    answer = answered(OWN, little_known, request=request)

    assert answer.uncertain == ("cards",)
    assert "Known with a wide error band: cards; measure a replica before you pay for the mix." in " ".join(
        together_sentences(replace(answer, alone=None))
    )


def test_there_is_nothing_to_mix_without_a_size_or_for_a_job() -> None:
    assert together(in_places(call_center(ttft_milliseconds=1), (OWN, RENTED))) is None
    job = replace(
        call_center(),
        sla=Sla(mode=SlaMode.OFFLINE),
        workload=replace(
            call_center().workload,
            peak_requests_per_second=None,
            average_requests_per_second=None,
            offline=OfflineJob(100_000, 10.0),
        ),
    )
    assert together(in_places(job, (OWN, RENTED))) is None
    assert together(()) is None
    assert together_json(None) is None


def test_the_first_type_of_the_list_is_filled_before_the_next() -> None:
    cards = Place("cards", "L40S", Pricing(gpu_hour=0.1))
    request = replace(
        call_center(arrivals=Arrivals.POISSON),
        hardware=replace(call_center().hardware, gpus=(H100, "L40S")),
        profiles=(),
    )
    few = replace(RENTED, most_gpus=4)
    placed = in_places(request, (cards, few))

    by_price, listed = together(placed), together(placed, listed=(H100, "L40S"))
    enough = together(in_places(request, (cards, RENTED)), listed=(H100, "L40S"))

    assert by_price is not None
    assert listed is not None
    assert enough is not None
    assert set(replicas(by_price)) == {"cards"}
    assert replicas(listed)["rented"] == 4
    assert listed.is_mixed
    assert "% more than cards alone." in shown(listed)
    assert "Mix as listed for the declared peak" in shown(listed)
    assert set(replicas(enough)) == {"rented"}
    assert list(together_sentences(enough)) == [
        "rented has the GPUs for the peak alone, and its type comes first in hardware.gpus."
    ]
