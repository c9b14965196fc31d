"""`gpuOrder`: the cheapest GPU type, or the first of the list that can."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.notebook import size as size_in_words
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.report.table import sizing_table
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Arrivals, GpuOrder, Hardware, Pricing
from tests.fixtures.worked_examples import H100, call_center

L40S = "L40S"
CHEAP_CARDS = {H100: Pricing(gpu_hour=8), L40S: Pricing(gpu_hour=0.1)}
CHEAP_SERVERS = {H100: Pricing(gpu_hour=1), L40S: Pricing(gpu_hour=8)}


def sized(*gpus: str, order: GpuOrder, pricing: dict[str, Pricing], ttft: float = 300) -> Sizing:
    request = call_center(arrivals=Arrivals.POISSON, ttft_milliseconds=ttft)
    return size(replace(request, hardware=Hardware(gpus, gpu_order=order), pricing=pricing, profiles=()))


def winner(answer: Sizing) -> str:
    assert answer.configuration is not None
    return answer.configuration.gpu


@pytest.mark.parametrize(("gpus", "pricing"), [((H100, L40S), CHEAP_CARDS), ((L40S, H100), CHEAP_SERVERS)])
def test_the_first_of_the_list_wins_whatever_it_costs(gpus: tuple[str, str], pricing: dict[str, Pricing]) -> None:
    listed = sized(*gpus, order=GpuOrder.LISTED, pricing=pricing)
    alone = sized(gpus[0], order=GpuOrder.PRICE, pricing=pricing)

    assert (listed.configuration, listed.replicas) == (alone.configuration, alone.replicas)
    later = [a.reason for a in listed.alternatives if a.configuration.gpu == gpus[1] and a.feasible]
    assert later
    assert all(reason.startswith("comes later in hardware.gpus") for reason in later)
    same = [a for a in listed.alternatives if a.configuration.gpu == gpus[0]]
    assert {(a.configuration, a.reason) for a in same} == {(a.configuration, a.reason) for a in alone.alternatives}
    Console(file=io.StringIO()).print(sizing_table("listed", listed, "no other"))


def test_a_type_that_cannot_is_passed_over() -> None:
    # One prompt alone takes longer on this GPU than the limit.
    assert winner(sized(L40S, H100, order=GpuOrder.LISTED, pricing={}, ttft=90)) == H100


def test_by_price_the_order_settles_ties_only() -> None:
    assert winner(sized(L40S, H100, order=GpuOrder.PRICE, pricing=CHEAP_SERVERS)) == H100


def test_a_notebook_says_it_in_a_word() -> None:
    asked = {"input_tokens": 2000, "output_tokens": 200, "requests_per_second": 20, "ttft_p95_ms": 300}

    assert winner(size_in_words("meta/llama3-8b-instruct", gpus=[L40S, H100], gpu_order="Listed", **asked)) == L40S  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^gpu_order"):
        size_in_words("meta/llama3-8b-instruct", gpus=L40S, gpu_order="cheapest", **asked)  # type: ignore[arg-type]
