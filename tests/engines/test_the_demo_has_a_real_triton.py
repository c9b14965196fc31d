"""`make demo RUNTIME=triton` as a user types it: a fleet that is emulated, one replica that is not, and a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.__main__ import main
from tests.demo.made import make_demo
from tools.engines import missing


@pytest.mark.cluster
@pytest.mark.engines
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(missing()), reason=f"no Triton on this machine: {missing()}")
def test_the_demo_passes_with_its_ttft_in_the_picture(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"

    done = make_demo("RUNTIME=triton", arguments=f"--page {page}")

    assert done.returncode == 0, done.said
    assert "requests to the real Triton inside the SLA" in done.said
    assert "requests that the real Triton counted" in done.said
    assert '"name":"TTFT P95 of the real Triton"' in page.read_text()


def test_it_says_where_it_cannot_play(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = str(tmp_path / "demo.html")
    monkeypatch.setattr("sys.argv", ["demo", "--runtime", "triton", "--fleet-address", "192.0.2.1", "--page", page])

    assert main() == 1
    assert "leave out NODE, --image and --fleet-address" in " ".join(capsys.readouterr().out.split())
