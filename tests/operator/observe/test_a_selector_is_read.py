"""Label selectors as texts, as Kubernetes documents their grammar."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.observe import selectors
from firsttoken_operator.observe.selectors import LONGEST_CHARACTERS, parse, selector_of, selects

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


@pytest.mark.parametrize(
    "text", ["", "  ,", "app in nim", "app in (nim", "=nim", "app=nim tier=gpu", "!", "a=b=c", "appin (nim)"]
)
def test_what_is_no_selector_selects_nothing(text: str) -> None:
    assert parse(text) is None


NAMES = st.text("abcdefghij.-/", min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.text("abcdef0123.-_", max_size=6), min_size=1, max_size=4))
def test_labels_are_selected_by_their_own_text(labels: dict[str, str]) -> None:
    text = ",".join(f"{name}={value}" for name, value in labels.items())

    assert parse(text) == selector_of(labels)
    assert selects(selector_of(labels), labels | {"another": "label"})
    assert not selects(selector_of(labels), {})


HOSTILE = {
    "spaces after a name": ("a", " ", "b"),
    "spaces after a value that is empty": ("a=", " ", "!"),
    "spaces before a list": ("a in", " ", "b"),
    "spaces in a list": ("a in (", " ", ""),
    "spaces after a lack": ("!", " ", "="),
    "names without an end": ("", "in", "("),
    "values without an end": ("a=", "b", "="),
    "lists without an end": ("a in ", "(", ""),
    "many requirements": ("", "a=b,", "="),
    "many names": ("", "a,", "="),
}
"""Texts as a tenant may write them into a status: a beginning, what is said again and again, and an end."""


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_the_time_to_read_a_text_grows_no_faster_than_its_length(
    parts: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "LONGEST_CHARACTERS", 10**6)
    least, most = (_seconds_to_read(parts, length) for length in (1000, 16_000))

    # NB: 16 times as long; a reader that goes back over each place takes 256 times the time.
    assert most < 64 * least


def _seconds_to_read(parts: tuple[str, str, str], length: int) -> float:
    begin, said, end = parts
    text, taken = begin + said * (length // len(said)) + end, []
    for _ in range(7):
        started = time.thread_time()
        assert parse(text) is None
        taken.append(time.thread_time() - started)
    return min(taken)


def test_a_text_that_is_longer_than_any_selector_selects_nothing() -> None:
    longest = "a=" + "b" * (LONGEST_CHARACTERS - 2)

    assert parse(longest) is not None
    assert parse(longest + "b") is None
