"""`kubectl wait` ends with an error where a definition has no conditions yet; what waits here does not."""

from __future__ import annotations

import json

import pytest

from tools.cluster import wait_until_established

NEW = {"conditions": None}
NAMED = {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "False"}]}
SERVED = {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]}


def said(*statuses: dict[str, object]) -> str:
    return json.dumps({"items": [{"status": status} for status in statuses]})


def test_it_waits_for_the_first_and_for_each() -> None:
    answers = iter([said(), said({}), said(SERVED, NEW), said(SERVED, NAMED), said(SERVED, SERVED), "asked too often"])
    wait_until_established(lambda *arguments: next(answers))

    assert next(answers) == "asked too often"


def test_it_gives_up() -> None:
    with pytest.raises(TimeoutError, match="every custom resource definition established"):
        wait_until_established(lambda *arguments: said(SERVED, NEW), seconds=0.05)
