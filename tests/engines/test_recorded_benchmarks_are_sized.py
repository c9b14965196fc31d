"""Recorded files of AIPerf against the real servers are imported and size traffic; `make engines` records anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engines.measured import assert_sized_by, imported

RECORDED = Path(__file__).parents[1] / "fixtures" / "benchmarks"


@pytest.mark.parametrize(
    ("server", "engine", "version", "input_tokens"),
    [("triton", "TensorRT-LLM", "2.51", 50), ("vllm", "vLLM", "0.32", 42)],
)
def test_its_file_is_imported_and_the_profile_sized(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: str, engine: str, version: str, input_tokens: int
) -> None:
    report = tmp_path / "profile_export_aiperf.json"
    shutil.copy(RECORDED / f"aiperf-real-{server}-concurrency1.json", report)

    profile = imported(report, engine, version)

    # Of Triton's own protocol AIPerf counts no prompts: their length is the one that was asked for.
    assert ("no prompt" in capsys.readouterr().err) == (server == "triton")
    assert (profile["spec"]["inputTokens"], profile["spec"]["outputTokens"]) == (input_tokens, 100)
    assert_sized_by(profile, engine, tmp_path, capsys)
