"""Pages for users are plain English as far as a test can tell: the first screen is short, and so are sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, prose

README = ROOT / "README.md"
GENERATED = {"values.md"}
PAGES = (README, *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in GENERATED))
MOST_WORDS = 700
LONGEST_SENTENCE, LONGEST_ON_THE_FIRST_SCREEN = 50, 36


def first_screen() -> str:
    """Read the README up to its folded details."""
    return README.read_text(encoding="utf-8").partition("<details>")[0]


def sentences(text: str) -> list[str]:
    """Split prose without tables: the items of a list and headings are by themselves."""
    lines = "\n".join(line for line in prose(text).splitlines() if not line.startswith("|"))
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-] |\d+\. |#))", lines)
    return [
        s for part in parts for s in re.split(r"(?<=[.!?]) (?=[A-Z0-9`*\[]|firsttoken )", " ".join(part.split())) if s
    ]


def longer(text: str, words: int) -> list[str]:
    return [sentence for sentence in sentences(text) if len(sentence.split()) > words]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_sentence_can_be_read_at_once(page: Path) -> None:
    assert longer(page.read_text(encoding="utf-8"), LONGEST_SENTENCE) == []


def test_the_first_screen_has_at_most_seven_hundred_words() -> None:
    assert 300 < len(first_screen().split()) <= MOST_WORDS
    assert longer(first_screen(), LONGEST_ON_THE_FIRST_SCREEN) == []


def test_it_says_what_is_needed_what_is_missing_and_what_is_written() -> None:
    said = " ".join(first_screen().split())

    for words in ("Kubernetes 1.30 or later", "no published image yet", "It scales Deployments", "writes nothing"):
        assert words in said


def test_a_long_sentence_is_noticed() -> None:
    assert longer(f"Short. {'word ' * 51}end. Short again.\n\n| {'cell ' * 60} |", LONGEST_SENTENCE) != []
    assert longer("A first one. A second one.", 3) == []
