"""Whatever regular expression the API asks for, a refusal says it in words, with an example that is accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from firsttoken_operator.api.crd import RESOURCES, Resource, custom_resource_definition, structural_schema
from firsttoken_operator.api.forms import FORMS


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        for part in schema.values():
            yield from patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from patterns(part)


def test_every_form_of_the_schema_has_words_and_no_other_has() -> None:
    asked = {pattern for resource in RESOURCES for pattern in patterns(structural_schema(resource.model))}

    assert asked == set(FORMS)


def rules(schema: Any) -> Iterator[dict[str, str]]:
    """Rules about the form of one text, which take the place of a pattern."""
    if isinstance(schema, dict):
        yield from (r for r in schema.get("x-kubernetes-validations", ()) if "self.matches(" in r["rule"])
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from rules(part)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_the_api_server_shows_words_and_no_expression_for_what_users_write(resource: Resource) -> None:
    (version,) = custom_resource_definition(resource)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    asked = list(patterns(structural_schema(resource.model)["properties"]["spec"]))

    assert list(patterns(spec)) == []
    assert [rule["rule"].partition("r'")[2].rpartition("'")[0] for rule in rules(spec)] == asked
    for rule, pattern in zip(rules(spec), asked, strict=True):
        assert rule["message"].startswith(f"is not {FORMS[pattern].words}; write ")
        assert FORMS[pattern].example in rule["message"]


@pytest.mark.parametrize("pattern", FORMS)
def test_the_example_of_a_form_is_of_that_form(pattern: str) -> None:
    assert re.match(pattern, FORMS[pattern].example)
    assert pattern not in FORMS[pattern].words
