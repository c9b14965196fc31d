"""A page that uses a short form says once what it stands for, so that it can be read without the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

SPELLED_OUT = {
    "TTFT": "time to first token",
    "ITL": "inter-token latency",
    "ISL": "input sequence length",
    "OSL": "output sequence length",
    "TP": "tensor parallelism",
    "PP": "pipeline parallelism",
    "EP": "expert parallelism",
    "KV": "keys and values",
    "knee": "point with the most throughput for its latency",
}


def unexplained(text: str) -> list[str]:
    words = " ".join(text.split()).lower()
    return [short for short, long in SPELLED_OUT.items() if re.search(rf"\b{short}\d?\b", text) and long not in words]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_spells_out_its_short_forms(page: Path) -> None:
    assert unexplained(page.read_text(encoding="utf-8")) == []


def test_a_short_form_alone_is_noticed() -> None:
    assert unexplained("TP8 within the TTFT") == ["TTFT", "TP"]
    assert unexplained("TTFT, the time to\nfirst token") == []


def test_the_first_screen_is_short_and_spells_out_what_it_is_about() -> None:
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("<details>")[0]

    assert len(shown.split()) <= 700
    assert "time to first token (TTFT" in shown
