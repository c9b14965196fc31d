"""A state is a JSON document and comes back equal; a broken document is an empty state."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.decide.forecast import ForecastState, Observation, from_document, observe, predict, to_document
from firsttoken_operator.decide.forecast.state import Method
from tests.operator.decide.forecast.series import HORIZON_SECONDS, MONDAY, constant, follow

STATE = follow(constant(5.0, hours=30, seed=1))
TEXT = json.dumps(to_document(STATE), allow_nan=False)


def leaves(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all members of a document."""
    found = [path] if path else []
    if isinstance(document, dict):
        for key, value in document.items():
            found += leaves(value, (*path, key))
    elif isinstance(document, list):
        for at, value in enumerate(document):
            found += leaves(value, (*path, at))
    return found


PATHS = leaves(json.loads(TEXT))


def broken(path: tuple[Any, ...], value: Any) -> Any:
    document = json.loads(TEXT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return document


def test_a_state_comes_back_equal() -> None:
    assert from_document(json.loads(TEXT)) == STATE
    assert from_document(json.loads(json.dumps(to_document(ForecastState())))) == ForecastState()


@pytest.mark.parametrize(
    "document",
    [
        None,
        3,
        "",
        [],
        {},
        {"version": 1},
        {**json.loads(TEXT), "version": 2},
        broken(("level", "noise", "weight"), 0.0),
        broken(("level", "variance"), -1.0),
        broken(("level", "rate"), math.nan),
        broken(("level", "window_seconds"), True),
        broken(("season", "day"), [1.0] * 23),
        broken(("score", "scores"), []),
        broken(("score", "path"), [[1.0]]),
        broken(("samples",), 1.5),
    ],
    ids=lambda document: str(document)[:40],
)
def test_a_broken_document_is_an_empty_state(document: Any) -> None:
    assert from_document(document) == ForecastState()


@settings(max_examples=100, deadline=None)
@given(
    path=st.sampled_from(PATHS),
    value=st.one_of(
        st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=3), st.just([]), st.just({})
    ),
)
def test_a_document_with_anything_in_it_gives_a_state_that_works(path: tuple[Any, ...], value: Any) -> None:
    state: ForecastState | None = from_document(broken(path, value))
    for tick in range(50):
        now = MONDAY + 30 * 3600.0 + 15.0 * tick
        state = observe(state, Observation(now, 5.0, 60.0, HORIZON_SECONDS))
        answer = predict(state, now, HORIZON_SECONDS)
        assert math.isfinite(answer.level_per_second + answer.peak_per_second + answer.deviation_per_second)
        assert answer.method in Method
