"""docs/security.md: thirty points, each with tests that exist; and no page shows a check that lets everything pass."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, ROOT, table
from tests.docs.test_the_reliability_page_names_what_shows_it import assert_tests_exist

PAGE = ROOT / "docs/security.md"
POINTS = table(PAGE, "## Checklist")


def test_all_points_are_there_once_and_in_order() -> None:
    assert [row[0] for row in POINTS] == [str(number) for number in range(1, 31)]


@pytest.mark.parametrize("row", POINTS, ids=lambda row: f"{row[0]}")
def test_a_point_is_shown_by_tests_that_exist(row: tuple[str, ...]) -> None:
    _, point, shown = row

    assert point
    assert assert_tests_exist(shown) >= 1


def test_no_page_verifies_a_signature_against_an_identity_that_every_signer_has() -> None:
    named = [found for page in PAGES for found in re.findall(r"--certificate-identity\S*[ =]+(\S+)", page.read_text())]

    assert named
    assert not [pattern for pattern in named if re.fullmatch(r"['\"]?\^?\.[*+]\$?['\"]?", pattern)]
