"""Names of pods in the past, where nothing else tells whose they were."""

from __future__ import annotations

import re

import pytest

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.observe.history import POD_NAME
from firsttoken_operator.observe.targets import beginning_of_pods
from tests.operator.observe.bodies import inference_deployment


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        ("rag-7d9f8c6b5-x2k4l", "rag"),
        ("support-rag-7d9f8c6b5-24567", "support-rag"),
        ("support-rag-0", "support-rag"),
        ("support-rag-1234", "support-rag"),
        ("chat-predictor-6f7c9-abcde", "chat-predictor"),
        ("gpu-0-7d9f8-x2k4l", "gpu-0"),
    ],
)
def test_it_begins_with_the_name_of_what_made_it(pod: str, name: str) -> None:
    found = re.fullmatch(POD_NAME, pod)

    assert found is not None
    assert found[1] == name


@pytest.mark.parametrize(
    ("kind", "name"), [("StatefulSet", "rag"), ("InferenceService", "rag-predictor"), ("RayService", "rag")]
)
def test_those_of_a_predictor_have_its_name(kind: str, name: str) -> None:
    body = inference_deployment(target_ref={"apiVersion": "any/v1", "kind": kind, "name": "rag"})

    assert beginning_of_pods(InferenceDeployment.model_validate(body)) == name
