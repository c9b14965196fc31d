"""A start reads what exists page by page, so that its memory does not grow with what tenants have stored."""

from __future__ import annotations

import pytest

from tests.faults.proxy import Entry
from tests.faults.stage import Stage
from tests.operator.act.objects import infd
from tests.operator.run.process import create
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

RESOURCES = 60
PAGES = {"inferencedeployments": {25, 500}, "deployments": {500}, "pods": {500}}
"""Objects of a page: kopf has a page's text and objects in memory together; the check that it told of all has not."""


def test_every_first_list_asks_for_a_page_and_goes_on_with_the_next(stage: Stage) -> None:
    create(stage.cluster, *(infd(f"stored-{n}", targetRef={"name": f"stored-{n}"}) for n in range(RESOURCES)))
    begin = stage.proxy.log[-1].number
    stage.process.kill()
    wait_until(lambda: stage.ended and stage.process.get("readyz")[0] == 200, 150, "started again")
    lists = [entry for entry in stage.proxy.since(begin) if entry.method == "GET" and not entry.is_watch]

    for kind, page in PAGES.items():
        assert {int(entry.query.get("limit", 0)) for entry in of(kind, lists)} == page, kind
    of_kopf = [entry for entry in of("inferencedeployments", lists) if entry.query["limit"] == "25"]
    assert len([entry for entry in of_kopf if "continue" in entry.query]) >= RESOURCES // 25


def of(kind: str, entries: list[Entry]) -> list[Entry]:
    """Requests of a whole collection of this kind."""
    return [entry for entry in entries if entry.path.endswith(f"/{kind}")]
