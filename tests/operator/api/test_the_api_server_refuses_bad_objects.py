"""The real API server refuses what must not run, and its message says which field and what to do."""

import json
from typing import Any

import pytest
from kubernetes import client

from tests.operator.api.bad_objects import DEPLOYMENT, GOOD, NAMESPACE, PLURALS, BadObject, changed
from tests.operator.api.refused_by_rule import REFUSED_BY_RULE
from tests.operator.api.refused_by_schema import REFUSED_BY_SCHEMA
from tools.cluster import Cluster

pytestmark = pytest.mark.cluster


def answer_to(cluster: Cluster, document: dict[str, Any]) -> str | None:
    """Answer of the API server to the creation of an object; None where it would create it."""
    api = client.CustomObjectsApi(cluster.client)
    arguments = {
        "group": "firsttoken.dev",
        "version": "v1alpha1",
        "plural": PLURALS[document["kind"]],
        "body": document,
        "dry_run": "All",
        "field_validation": "Strict",
    }
    try:
        if document["kind"] == DEPLOYMENT:
            api.create_namespaced_custom_object(namespace=NAMESPACE, **arguments)
        else:
            api.create_cluster_custom_object(**arguments)
    except client.ApiException as error:
        return json.loads(error.body)["message"]
    return None


@pytest.mark.parametrize("kind", list(GOOD))
def test_the_good_object_is_accepted(cluster, kind):
    assert answer_to(cluster, dict(GOOD[kind])) is None


@pytest.mark.parametrize("bad", REFUSED_BY_RULE, ids=lambda bad: bad.id)
def test_fields_that_do_not_go_together_are_refused_with_field_and_fix(cluster, bad: BadObject):
    assert answer_to(cluster, bad.document) == bad.server_message


@pytest.mark.parametrize("bad", REFUSED_BY_SCHEMA, ids=lambda bad: bad.id)
def test_values_outside_the_schema_are_refused_with_what_is_allowed(cluster, bad: BadObject):
    assert answer_to(cluster, bad.document) == bad.server_message


NIM = {"type": "NIM", "image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3"}
IMMUTABLE = {
    "the model": (
        {},
        {"spec": {"model": {"name": "meta-llama/Meta-Llama-3-70B-Instruct"}}},
        "spec.model.name: Invalid value: model.name is immutable; create a new InferenceDeployment for another model",
    ),
    "the target": (
        {},
        {"spec": {"targetRef": {"name": "other"}}},
        "spec.targetRef: Invalid value: targetRef is immutable; create a new InferenceDeployment for another target",
    ),
    "a target for a runtime": (
        {},
        {"spec": {"targetRef": None, "runtime": NIM}},
        "spec: Invalid value: runtime and targetRef cannot be exchanged for each other; "
        "create a new InferenceDeployment",
    ),
    "the engine": (
        {"spec.targetRef": None, "spec.runtime": NIM},
        {"spec": {"runtime": {"type": "VLLM"}}},
        "spec.runtime.type: Invalid value: runtime.type is immutable; "
        "create a new InferenceDeployment for another engine",
    ),
}


@pytest.fixture
def stored(cluster, request):
    """A stored deployment, with the changes of the test's parameter."""
    document = changed(GOOD[DEPLOYMENT], {"metadata.name": "stored", **request.param})
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(document))
    yield document
    cluster.kubectl("delete", "infd", "stored")


@pytest.mark.parametrize(
    ("stored", "patch", "message"), IMMUTABLE.values(), ids=[f"not {what}" for what in IMMUTABLE], indirect=["stored"]
)
def test_what_a_fleet_was_built_for_cannot_be_exchanged(cluster, stored, patch, message):
    done = cluster.kubectl("patch", "infd", "stored", "--type=merge", "-p", json.dumps(patch), check=False)

    assert done.stderr.strip() == f'The InferenceDeployment "stored" is invalid: {message}'


@pytest.mark.parametrize("stored", [{"spec.targetRef": None, "spec.runtime": NIM}], ids=["a runtime"], indirect=True)
def test_the_image_may_change(cluster, stored):
    patch = {"spec": {"runtime": {"image": "nvcr.io/nim/meta/llama3-8b-instruct:1.1.0"}}}

    done = cluster.kubectl("patch", "infd", "stored", "--type=merge", "-p", json.dumps(patch))

    assert done.stdout.strip() == "inferencedeployment.firsttoken.dev/stored patched"
