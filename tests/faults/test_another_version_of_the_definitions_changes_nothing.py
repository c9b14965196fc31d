"""The definitions get a newer version, in which everything is stored from then on, lose ours, and get it back.

The API server converts by leaving out what a version does not know. Objects decide as before, those too that were
written in the newer version with a field that is not known here; while ours is not served nothing is scaled.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
import yaml

from tests.faults.stage import Stage
from tests.helm.chart import CRDS
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import create

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault]

SERVED_SECONDS = 3.0


def put_in_force(stage: Stage, *, newer_is_stored: bool, is_ours_served: bool = True) -> None:
    """The definition with a newer version beside ours."""
    definition: dict[str, Any] = yaml.safe_load((CRDS / "firsttoken.dev_inferencedeployments.yaml").read_text())
    (ours,) = definition["spec"]["versions"]
    newer = copy.deepcopy(ours)
    newer["name"] = "v1beta1"
    newer["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["tenancy"] = {"type": "string"}
    newer["storage"], ours["storage"], ours["served"] = newer_is_stored, not newer_is_stored, is_ours_served
    definition["spec"]["versions"] = [newer, ours]
    stage.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump(definition))
    time.sleep(SERVED_SECONDS)  # The API server gives no sign when it serves by the new one.


def test_it_decides_as_before_while_versions_come_and_go(stage: Stage) -> None:
    stage.declare("older", 2)
    put_in_force(stage, newer_is_stored=True)
    newer = infd("newer", targetRef={"name": "newer"}, scaling={"minReplicas": 3})
    newer["apiVersion"] = "firsttoken.dev/v1beta1"
    newer["spec"]["tenancy"] = "Shared"
    create(stage.cluster, workload(1, "newer"), newer)
    stage.until("newer", 3, 90)
    stage.change("older", minReplicas=3)
    stage.until("older", 3, 90)
    killed = stage.process
    killed.kill()
    stage.settle()
    stage.change("older", minReplicas=4)
    stage.until("older", 4, 90)

    put_in_force(stage, newer_is_stored=True, is_ours_served=False)
    before = len(stage.proxy.log)
    stage.change("older", minReplicas=5)
    time.sleep(15)
    assert (stage.replicas("older"), stage.replicas("newer")) == (4, 3)
    assert not stage.scale_writes("older", before)

    put_in_force(stage, newer_is_stored=False)
    stage.settle()
    stage.until("older", 5, 90)
    stage.change("newer", minReplicas=4)
    stage.until("newer", 4, 90)
    assert {c["type"]: c["status"] for c in stage.status("newer")["conditions"]}["SizingReady"] == "True"
