"""The first screen of the README is short and plain: what a newcomer reads before the folded details."""

from __future__ import annotations

import re

from tests.docs.pages import _FENCE, ROOT

FIRST_SCREEN = (ROOT / "README.md").read_text(encoding="utf-8").partition("<details>")[0]
MOST_WORDS = 700
LONGEST_SENTENCE = 36


def test_the_first_screen_has_at_most_seven_hundred_words() -> None:
    assert 300 < len(FIRST_SCREEN.split()) <= MOST_WORDS


def test_its_sentences_are_short() -> None:
    prose = _FENCE.sub("", FIRST_SCREEN)
    paragraphs = re.split(r"\n\s*\n|\n(?=\* |#)", prose)
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.!?]) ", " ".join(p.split())) if s]

    assert [s for s in sentences if len(s.split()) > LONGEST_SENTENCE] == []


def test_it_says_what_is_needed_what_is_missing_and_what_is_written() -> None:
    said = " ".join(FIRST_SCREEN.split())

    for words in ("Kubernetes 1.30 or later", "no published image yet", "scales Deployments only", "writes nothing"):
        assert words in said
