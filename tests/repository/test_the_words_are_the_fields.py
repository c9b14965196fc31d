"""Names and prose use the terms of `docs/glossary.md`: a word that was retired for one of them does not come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import table

ROOT = Path(__file__).parents[2]
TREES = ("sizing", "operator", "benchmarks", "demo", "tools", "tests", "docs", "examples", "helm", "crds")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml")
SUFFIXES = {".py", ".md", ".yaml", ".tpl", ".txt"}
REPLAY = ("operator/src/firsttoken_lab/replay/", "tests/lab/replay/", "benchmarks/policies/")
PARTS = {
    "": ("",),
    "estimators": ("operator/src/firsttoken_operator/estimate/", "tests/operator/estimate/"),
    "operator": ("operator/src/firsttoken_operator/",),
    "sizing": ("sizing/", "tests/sizing/"),
    "search": ("sizing/src/firsttoken_sizing/optimize/", "tests/sizing/optimize/"),
    "formats": ("sizing/src/firsttoken_sizing/benchmarks/formats.py",),
    "replay": ("tests/e2e/", *REPLAY),
    "policy benchmark": ("benchmarks/policies/",),
}
"""Parts of the tree, as the glossary calls them."""
NAMES_OF_THE_API = re.compile(r"`Pegged`|Reason\.PEGGED|SCALE_DOWN_BRAKE")


@dataclass(frozen=True, slots=True)
class Retired:
    """Words, the term in their place, and where that holds."""

    words: str
    use: str
    only: tuple[str, ...] = ("",)

    def found(self, text: str) -> Iterator[int]:
        """The lines of `text` with one of the words. The parts of an identifier are words, too."""
        words = "|".join(word.strip().replace(" ", "[ _]") for word in self.words.split(","))
        pattern = re.compile(rf"(?<![A-Za-z])(?:{words})(?:s|d|ed)?(?![A-Za-z])", re.IGNORECASE)
        if not pattern.search(text):
            return
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(NAMES_OF_THE_API.sub("", line)):
                yield number


def parts(names: str) -> tuple[str, ...]:
    return tuple(path for name in names.split(",") for path in PARTS[name.strip()])


GLOSSARY = ROOT / "docs/glossary.md"
RETIRED = [Retired(old, new, parts(where)) for old, new, where in table(GLOSSARY, "## Words that were replaced")]


def files() -> Iterator[Path]:
    for tree in TREES:
        yield from sorted(file for file in (ROOT / tree).rglob("*") if file.suffix in SUFFIXES)
    yield from (ROOT / page for page in PAGES if (ROOT / page).exists())


TEXTS = {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in files() if f != Path(__file__)}
TEXTS["docs/glossary.md"] = TEXTS["docs/glossary.md"].partition("\n## Words that were replaced\n")[0]


@pytest.mark.parametrize("retired", RETIRED, ids=lambda retired: retired.words)
def test_a_retired_word_is_nowhere(retired: Retired) -> None:
    held = {name: text for name, text in TEXTS.items() if name.startswith(retired.only)}
    found = [f"{name}:{line}" for name, text in held.items() for line in retired.found(text)]
    found += [f"{name}: its name" for name in held if any(retired.found(name.removeprefix("sizing/")))]

    assert held
    assert found == [], f"say {retired.use}"


@pytest.mark.parametrize("text", ["Nobody waits.", "def that_nobody_measured():", "NOBODY_MEASURED = 1"])
def test_a_word_is_found_in_prose_and_in_names(text: str) -> None:
    assert list(RETIRED[0].found(f"first line\n{text}")) == [2]


def test_a_part_of_another_word_is_not_that_word() -> None:
    assert list(Retired("course", "trajectory").found("of course_ids, not of resources: discourse")) == [1]
    assert list(Retired("lock", "mutex").found("blocks of a clock")) == []
