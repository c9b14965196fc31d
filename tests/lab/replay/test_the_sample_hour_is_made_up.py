"""The sample hour that ships with `firsttoken replay` is what its tool makes, scaled to what a resource declares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from firsttoken_lab.replay.traffic import SAMPLE, Shaping, sample_traffic
from firsttoken_operator.cli import main
from firsttoken_sizing.performance.lengths import Lengths
from tools import sample_hour

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/call-center.yaml"
DECLARED = Lengths(2000.0, 2000.0, 200.0)
PEAK = 50.0


def test_the_file_is_what_its_tool_writes() -> None:
    assert SAMPLE == sample_hour.FILE
    assert SAMPLE.read_text() == sample_hour.text(), "run: python -m tools.sample_hour"


def test_its_busiest_minute_is_the_declared_peak_and_its_lengths_are_the_declared_ones() -> None:
    made = sample_traffic(PEAK, DECLARED, Shaping())
    minutes = np.bincount((made.requests.arrival_s // 60).astype(np.int64)) / 60

    assert minutes.max() == pytest.approx(PEAK, rel=0.1)
    assert minutes[0] < PEAK / 10
    assert made.requests.arrival_s[-1] == pytest.approx(3600, rel=0.01)
    assert made.requests.input_tokens.mean() == pytest.approx(2000, rel=0.05)
    assert made.requests.output_tokens.mean() == pytest.approx(200, rel=0.05)


def test_a_scale_multiplies_the_peak() -> None:
    whole, half = (len(sample_traffic(PEAK, DECLARED, Shaping(scale)).requests) for scale in (1.0, 0.5))

    assert half == pytest.approx(whole / 2, rel=0.05)


@pytest.mark.slow
def test_without_a_trace_the_command_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", "-f", str(EXAMPLE), "--rate-scale", "0.05", "--policy", "static-peak", "-o", "json"]
    assert main([*arguments, "--start", "2026-11-18T08:00Z"]) == 0

    (static,) = json.loads(capsys.readouterr().out)
    assert (static["trace"], static["rateScale"]) == ("sample-hour.csv", 10.0)
    assert static["requests"] == pytest.approx(10_560, rel=0.05)
