"""docs/policy.svg, the first picture of the README, shows the table of means on docs/policy.md and nothing else."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import policy
from policies.picture import bars, drawn
from policies.tables import MEANS, ResultTable

PAGE = Path(__file__).resolve().parents[2] / "docs/policy.md"
HEADINGS = ("policy", "weeks: inside SLA %", "over clairvoyant %", "all recorded: inside SLA %", "over clairvoyant %")


def table() -> tuple[tuple[str, ...], ...]:
    """The rows of the page's table of means, its headings first."""
    text = PAGE.read_text(encoding="utf-8").partition(f"### {MEANS}\n")[2].partition("\n### ")[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in text.splitlines() if line]
    return (rows[0], *rows[2:])


def test_the_picture_is_of_the_table_on_the_page() -> None:
    headings, *rows = table()

    assert headings == HEADINGS
    assert PAGE.with_suffix(".svg").read_text(encoding="utf-8") == drawn(bars(headings, rows))


def test_the_fewest_gpu_hours_come_first_and_what_misses_the_sla_is_pale() -> None:
    rows = (("knative", "98.99", "+9.0", "-", "-"), ("firsttoken", "99.50", "+20.0", "-", "-"))
    rows += (("hpa", "99.00", "+12.4", "-", "-"), ("keda", "-", "-", "90.00", "+1.0"))

    root = ElementTree.fromstring(drawn(bars(HEADINGS, rows)))

    shapes = [shape.get("class") for shape in root.iter("{http://www.w3.org/2000/svg}rect") if shape.get("class")]
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert shapes == ["missed", "kept", "ours"]
    assert [text for text in texts if text.startswith("+")] == ["+9 % (99.0 %)", "+12 % (99.0 %)", "+20 % (99.5 %)"]


def test_a_run_writes_the_picture_beside_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "policy.md"
    page.write_text(f"{policy.HEADING}\n", encoding="utf-8")
    rows = (("firsttoken", "99.50", "+20.0", "-", "-"),)

    policy.report([ResultTable(MEANS, HEADINGS, rows)], page)

    assert page.with_suffix(".svg").read_text(encoding="utf-8") == drawn(bars(HEADINGS, rows))
