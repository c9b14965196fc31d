"""Refusals of the API server are those of `firsttoken size` without one: one line with file, object, field and fix."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from firsttoken_operator.api.crd import RESOURCES, custom_resource_definition
from firsttoken_operator.api.documents import Documents, parse_documents
from firsttoken_operator.api.errors import ApiError, InvalidDocument
from tests.operator.api.bad_objects import GOOD, BadObject, changed
from tests.operator.api.refused_by_rule import REFUSED_BY_RULE
from tests.operator.api.refused_by_schema import REFUSED_BY_SCHEMA


@pytest.mark.parametrize("kind", list(GOOD))
def test_the_good_object_is_read(kind):
    documents = parse_documents(yaml.safe_dump(GOOD[kind]))

    assert len(documents.deployments) + len(documents.pools) + len(documents.benchmarks) == 1


@pytest.mark.parametrize("bad", [*REFUSED_BY_RULE, *REFUSED_BY_SCHEMA], ids=lambda bad: bad.id)
def test_the_bad_object_is_refused_in_one_line(bad: BadObject):
    with pytest.raises(InvalidDocument) as refusal:
        parse_documents(yaml.safe_dump(bad.document), file="team.yaml")

    assert str(refusal.value) == bad.offline_message
    assert "\n" not in str(refusal.value)


def rules(schema, found=None):
    """Every rule of a schema, at any depth."""
    found = [] if found is None else found
    if isinstance(schema, dict):
        found += schema.get("x-kubernetes-validations", [])
        for part in schema.values():
            rules(part, found)
    return found


def test_every_rule_is_broken_by_one_of_the_bad_objects():
    declared = {
        rule["message"]
        for resource in RESOURCES
        for rule in rules(custom_resource_definition(resource))
        if "oldSelf" not in rule["rule"]
    }

    assert declared - {f"{bad.problem}; {bad.fix}" for bad in REFUSED_BY_RULE} == set()


def test_further_problems_are_counted():
    document = changed(GOOD["InferenceDeployment"], {"spec.scaling": {"minReplicas": -1, "maxReplicas": 0}})

    with pytest.raises(InvalidDocument) as refusal:
        parse_documents(yaml.safe_dump(document), file="team.yaml")

    assert str(refusal.value) == (
        "team.yaml: InferenceDeployment/support-rag: spec.scaling.minReplicas: -1 is out of bounds; use 0 or more "
        "(1 more problem in this object)"
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["NaN", "1e9", "\u202e", "\U0001f4a5", "200", "P95", 10**30]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PATHS = st.sampled_from(
    [
        "spec",
        "spec.model.name",
        "spec.traffic",
        "spec.traffic.inputTokens",
        "spec.traffic.peakRequestsPerSecond",
        "spec.traffic.schedule",
        "spec.sla.timeToFirstToken",
        "spec.hardware.gpus",
        "spec.scaling",
        "spec.scaling.minReplicas",
        "spec.runtime",
        "spec.capacity.pool",
        "metadata.name",
        "metadata.labels",
        "status",
        "status.sizing.configuration",
        "kind",
        "apiVersion",
    ]
)


def read_or_refusal(text: str) -> Documents | str:
    try:
        return parse_documents(text)
    except ApiError as refusal:
        return str(refusal)


@pytest.mark.parametrize("place", ["spec", "metadata.labels"])
@pytest.mark.parametrize("key", ["\n", "\u2028", "k" * 1000], ids=["line feed", "line separator", "long"])
def test_a_key_that_breaks_the_line_is_quoted(place, key):
    document = changed(GOOD["InferenceDeployment"], {place: {key: []}})

    (line,) = str(read_or_refusal(json.dumps(document))).splitlines()

    assert len(line) < 300


@given(path=PATHS, value=JSON_VALUES)
@example(path="spec", value={"\n": None})
@example(path="metadata.name", value="\n")
@example(path="kind", value="\x1b[2J")
def test_a_spoiled_object_is_read_or_refused_and_never_crashes(path, value):
    document = changed(GOOD["InferenceDeployment"], {path: value})

    result = read_or_refusal(json.dumps(document))

    assert isinstance(result, Documents) or result.isprintable()
