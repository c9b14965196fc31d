"""`make demo RUNTIME=...` as a user types it: a fleet that is emulated, one replica that is not, and a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.__main__ import main
from demo.real import KINDS
from tests.demo.made import make_demo
from tools.engines import missing

NO_TRITON = pytest.mark.skipif(bool(missing()), reason=f"no Triton on this machine: {missing()}")


@pytest.mark.cluster
@pytest.mark.engines
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("runtime", "criterion"),
    [
        pytest.param("triton", "requests to the real Triton inside the SLA", marks=NO_TRITON),
        ("vllm", "median TTFT of the real vLLM"),
    ],
)
def test_the_demo_passes_with_its_ttft_in_the_picture(runtime: str, criterion: str, tmp_path: Path) -> None:
    name, page = KINDS[runtime].name, tmp_path / "demo.html"

    done = make_demo(f"RUNTIME={runtime}", arguments=f"--page {page}")

    # NB: a narrow table breaks its lines where it likes.
    said = "".join(done.said.split())
    assert done.returncode == 0, done.said
    assert f'"name":"TTFT P95 of the real {name}"' in page.read_text()
    assert criterion in page.read_text()
    assert f"requests that the real {name} counted" in page.read_text()
    assert f"{name}:TTFTP95" in said


@pytest.mark.parametrize("runtime", KINDS)
def test_it_says_where_it_cannot_play(
    runtime: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = str(tmp_path / "demo.html")
    monkeypatch.setattr("sys.argv", ["demo", "--runtime", runtime, "--fleet-address", "192.0.2.1", "--page", page])

    assert main() == 1
    assert "leave out NODE, --image and --fleet-address" in " ".join(capsys.readouterr().out.split())
