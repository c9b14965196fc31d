"""A sizing for another number of GPUs a replica is withheld, and says how the two come together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import judge_facts
from firsttoken_operator.domain import Claims, FleetSnapshot, Reason, ResourceSnapshot, TargetMissing, Unsized
from tests.operator.decide.builders import SIZED, metrics, resource, target

TWO_GPUS = resource(target(1, gpus_per_replica=2), metrics(1.0))
UNKNOWN = Unsized(Reason.UNKNOWN_MODEL, "")


def judged(about: ResourceSnapshot) -> ResourceSnapshot:
    (found,) = judge_facts(FleetSnapshot(0, 15, (about,))).resources
    return found


@pytest.mark.parametrize(
    "about",
    [
        resource(target(1, gpus_per_replica=1), metrics(1.0)),
        resource(TargetMissing(Reason.TARGET_NOT_FOUND, ""), metrics(1.0)),
        replace(TWO_GPUS, sized=UNKNOWN),
    ],
    ids=["the same number", "no pods", "no sizing"],
)
def test_what_does_not_contradict_stays(about: ResourceSnapshot) -> None:
    assert judged(about) == about


@pytest.mark.parametrize(
    ("is_rendered", "way_out"),
    [(False, "set hardware.tensorParallel to what they run"), (True, "the Deployment is to be updated first")],
)
def test_another_number_of_gpus_is_a_mismatch(is_rendered: bool, way_out: str) -> None:
    found = judged(replace(TWO_GPUS, claims=Claims("nim", is_rendered))).sized

    assert isinstance(found, Unsized)
    assert found.reason is Reason.TENSOR_PARALLEL_MISMATCH
    assert found.message == f"sized for 1 GPUs a replica, the pods of nim have 2; {way_out}"
    assert found.withheld is SIZED
