"""Whatever regular expression the API asks for, a refusal says it in words, with an example that is accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from firsttoken_operator.api.crd import RESOURCES, structural_schema
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


@pytest.mark.parametrize("pattern", FORMS)
def test_the_example_of_a_form_is_of_that_form(pattern: str) -> None:
    assert re.match(pattern, FORMS[pattern].example)
    assert pattern not in FORMS[pattern].words
