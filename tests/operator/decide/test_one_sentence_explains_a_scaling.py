"""The sentence of a scaling: why not one replica fewer, also where the predicted TTFT alone does not say it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide.sentences import announcement
from firsttoken_operator.domain import Prediction
from tests.operator.act.objects import decision
from tests.operator.decide.builders import SIZED, metrics, resource, target

ABOUT = resource(target(5), metrics(20.0))
CAPACITY = SIZED.table.capacity_requests_per_second


def sentence(rate_at_fewer: float) -> str:
    points = Prediction(SIZED.table.at(rate_at_fewer), SIZED.table.at(rate_at_fewer / 2), None)
    return announcement(decision(ABOUT, 1, 2, prediction=points), SIZED)


def test_the_parts_come_in_a_fixed_order() -> None:
    assert sentence(1.2 * CAPACITY) == (
        "1 -> 2 replicas (DemandAboveCapacity); arrival rate 20.0 requests/s; "
        "predicted TTFT P95: 406 ms at 1 replicas (120 % of capacity), 146 ms at 2; limit 60 replicas"
    )


@pytest.mark.parametrize(("share", "shown"), [(1.002, "101 %"), (1.031, "103 %"), (1.0, "100 %"), (0.4, "40 %")])
def test_one_replica_fewer_is_shown_with_its_load(share: float, shown: str) -> None:
    assert f"at 1 replicas ({shown} of capacity), " in sentence(share * CAPACITY)


def test_a_fleet_of_one_is_not_compared_with_none() -> None:
    alone = replace(decision(ABOUT, 2, 1), prediction=Prediction(None, SIZED.table.at(CAPACITY), None))

    assert "; predicted TTFT P95: 300 ms at 1 replica; " in announcement(alone, SIZED)


def test_of_no_replicas_nothing_is_predicted() -> None:
    scaled_to_zero = replace(decision(ABOUT, 1, 0), arrival_requests_per_second=0.0, prediction=None)

    assert "; arrival rate 0.0 requests/s; nothing to predict without replicas; " in announcement(scaled_to_zero, SIZED)
