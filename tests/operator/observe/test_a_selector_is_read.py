"""Label selectors as texts, as Kubernetes documents their grammar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.observe.selectors import parse, selector_of, selects

LABELS = {"app": "nim", "tier": "gpu", "example.com/role": "leader"}


@pytest.mark.parametrize(
    "text",
    [
        "app=nim", "app==nim", " app = nim , tier=gpu ", "app in (rag, nim)", "tier notin (cpu)", "tier", "!batch",
        "app!=rag", "batch!=yes", "example.com/role=leader,app in (nim),!batch", "batch notin (yes)", "app=nim,",
    ],
)  # fmt: skip
def test_labels_meet_a_selector(text: str) -> None:
    selector = parse(text)

    assert selector is not None
    assert selects(selector, LABELS)


@pytest.mark.parametrize(
    "text", ["app=rag", "app in (rag)", "tier notin (gpu, cpu)", "batch", "!tier", "app!=nim", "app=nim,batch"]
)
def test_labels_miss_a_selector(text: str) -> None:
    selector = parse(text)

    assert selector is not None
    assert not selects(selector, LABELS)


@pytest.mark.parametrize("text", ["", "  ,", "app in nim", "app in (nim", "=nim", "app=nim tier=gpu", "!", "a=b=c"])
def test_what_is_no_selector_selects_nothing(text: str) -> None:
    assert parse(text) is None


NAMES = st.text("abcdefghij.-/", min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.text("abcdef0123.-_", max_size=6), min_size=1, max_size=4))
def test_labels_are_selected_by_their_own_text(labels: dict[str, str]) -> None:
    text = ",".join(f"{name}={value}" for name, value in labels.items())

    assert parse(text) == selector_of(labels)
    assert selects(selector_of(labels), labels | {"another": "label"})
    assert not selects(selector_of(labels), {})
