"""`make demo NODE=1` as a user types it: real pods of both fleets, and a release of the chart that scales them."""

from __future__ import annotations

from pathlib import Path

import pytest

import demo.node
from tests.demo.made import LONGEST_SILENCE_SECONDS, make_demo
from tools.image.build import Image
from tools.node.node import missing

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(missing()), reason=f"no node runs here: {missing()}")
def test_a_frozen_scaler_fails_it_there_too(image: Image, tmp_path: Path) -> None:
    page = tmp_path / "demo.html"

    done = make_demo("NODE=1", arguments=f"--freeze --page {page}")

    assert done.returncode == 2, done.said
    assert "node-1   Ready" in done.said
    assert "the load was not answered: giving up" in done.said
    assert "firsttoken demo: <span class=failed>" in page.read_text()
    assert done.silence_seconds < LONGEST_SILENCE_SECONDS


def test_where_no_node_runs_it_says_why_and_plays_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo.node, "missing", lambda: "needs root")

    assert demo.node.main() == 0
    assert capsys.readouterr().out == "demo: skipped, no node runs here: needs root\n"
