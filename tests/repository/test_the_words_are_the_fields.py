"""Names and prose use the terms of `docs/glossary.md`: a word that was retired for one of them does not come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("sizing", "operator", "benchmarks", "demo", "tools", "tests", "docs", "examples", "helm", "crds")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml")
SUFFIXES = {".py", ".md", ".yaml", ".tpl", ".txt"}
OPERATOR = ("operator/src/firsttoken_operator/", "tests/operator/")
SIZING = ("sizing/", "tests/sizing/")
REPLAY = ("operator/src/firsttoken_lab/replay/", "tests/lab/replay/", "benchmarks/policies/")
ESTIMATE = ("operator/src/firsttoken_operator/estimate/", "tests/operator/estimate/")
OUTSIDE = (*SIZING, "benchmarks/", "tests/benchmarks/", "demo/", "tests/demo/", "tools/", "tests/tools/", "docs/")


@dataclass(frozen=True, slots=True)
class Retired:
    """A pattern for whole words, the term in its place, and where it holds: `only` there, or everywhere."""

    words: str
    use: str
    only: tuple[str, ...] = ("",)

    def found(self, text: str) -> Iterator[int]:
        """The lines of `text` with one of the words. The parts of an identifier are words, too."""
        pattern = re.compile(rf"(?<![A-Za-z])(?:{self.words})(?![A-Za-z])", re.IGNORECASE)
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield number


RETIRED = (
    Retired("nobody|somebody|whoever", "the thing itself: no replica, another controller", (*OUTSIDE, *REPLAY)),
    Retired("prospects?|prospect_of", "candidate bound"),
    Retired("hopeless", "pruned"),
    Retired("cautions?", "warning"),
    Retired("refusals?", "infeasible candidate", ("sizing/src/firsttoken_sizing/optimize/",)),
    Retired("readings?", "load model", ("sizing/src/firsttoken_sizing/optimize/", "tests/sizing/optimize/")),
    Retired("readings?", "parse result", ("sizing/src/firsttoken_sizing/benchmarks/formats.py",)),
    Retired("soundness", "validation"),
    Retired("fluctuations?", "second moments", SIZING),
    Retired("agitation", "variance amplification"),
    Retired("(after_)?company", "batch co-arrivals", SIZING),
    Retired("players?|knobs?|sheets?", "contender, tuning parameter, table", ("benchmarks/policies/",)),
    Retired("courses?", "trajectory", ("tests/e2e/", *REPLAY)),
    Retired("objections?", "veto", OPERATOR),
    Retired("(?<!DOWN_)brakes?", "scale-down rate limit"),
    Retired("broom|sweep(s|ing)?", "resync", OPERATOR[:1]),
    Retired("poison(ous|ed)?", "failing resource"),
    Retired("lessons?|taught|teach(es)?", "update, sample", ESTIMATE),
    Retired("tighten(s|ed)?|tail_factor", "fast or slow correction", ESTIMATE),
    Retired("patience|patient", "stabilization-window multiplier", ESTIMATE),
    Retired("(over)?spent|spending|balance", "consumption, gain, error signal", ESTIMATE),
    Retired("fill(ed)?", "utilization", ESTIMATE),
    Retired("boost(ed|s)?", "over-provisioning", ESTIMATE),
    Retired("believed?|doubted", "prior weight, uncertainty bound", ESTIMATE),
    Retired("work_ratio|wanted_load", "request cost, target load"),
)


def files() -> Iterator[Path]:
    for tree in TREES:
        yield from sorted(file for file in (ROOT / tree).rglob("*") if file.suffix in SUFFIXES)
    yield from (ROOT / page for page in PAGES if (ROOT / page).exists())


TEXTS = {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in files() if f != Path(__file__)}


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
