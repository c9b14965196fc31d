"""The search prunes what cannot win. Sizing everything must end at the same configuration and size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Hardware, Pricing, Routing, SizingRequest, size
from firsttoken_sizing.optimize import search
from tests.fixtures.worked_examples import H100, call_center

pytestmark = pytest.mark.slow


GPUS = Hardware(gpus=(H100, "A100-SXM-80GB", "L40S"))
PRICES = {H100: Pricing(gpu_hour=4.0), "A100-SXM-80GB": Pricing(gpu_hour=1.2), "L40S": Pricing(gpu_hour=0.9)}
CLOSED = replace(call_center(), precision=None, hardware=GPUS, pricing={})
QUESTIONS = {
    "closed loop": CLOSED,
    "one request a second": replace(
        CLOSED, workload=replace(CLOSED.workload, peak_requests_per_second=1, average_requests_per_second=None)
    ),
    "by price": replace(CLOSED, pricing=PRICES),
    "nothing measured": replace(CLOSED, profiles=()),
    "Poisson": replace(call_center(ttft_milliseconds=100, arrivals=Arrivals.POISSON), profiles=()),
    "least loaded": replace(
        call_center(ttft_milliseconds=100, arrivals=Arrivals.POISSON),
        workload=replace(call_center().workload, routing=Routing.LEAST_LOADED),
    ),
}


@pytest.mark.parametrize("request_", QUESTIONS.values(), ids=QUESTIONS)
def test_sizing_everything_ends_at_the_same_answer(request_: SizingRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = size(request_)
    monkeypatch.setattr(search, "pruned", lambda *_, **__: None)

    thorough = size(request_)

    assert (quick.configuration, quick.replicas) == (thorough.configuration, thorough.replicas)
    assert sum(a.gpus is None for a in quick.alternatives if a.feasible) > 0
    assert all(a.gpus is not None for a in thorough.alternatives if a.feasible)


def test_a_pruned_candidate_says_what_it_needs_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = {
        a.configuration: int(a.reason.split("at least ")[1].split(" GPUs")[0])
        for a in size(QUESTIONS["nothing measured"]).alternatives
        if a.feasible and a.gpus is None
    }
    monkeypatch.setattr(search, "pruned", lambda *_, **__: None)
    needed = {a.configuration: a.gpus for a in size(QUESTIONS["nothing measured"]).alternatives}

    assert stated
    assert all(least <= (needed[key] or 0) for key, least in stated.items())
