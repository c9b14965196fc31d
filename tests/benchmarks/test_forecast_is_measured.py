from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

import forecast
from firsttoken_operator.estimate import Method

TRACES = Path(__file__).resolve().parents[2].parent / "shared" / "traces"
DAILY = forecast.RecordedSeries("made up", "made_up_series", 1.0, 15.0)


def write_daily(folder: Path, days: int) -> None:
    """A series of a steep morning a day, every 10 minutes, with one hole of a few hours."""
    lines = ["t,rps"]
    for point in range(days * 144):
        hour = point % 144 / 6.0
        rate = 0.0 if 20 <= point < 40 else 10.0 + 50.0 * math.exp(-(((hour - 13.0) / 3.0) ** 2))
        lines.append(f"{point * 600},{rate:.4f}")
    with gzip.open(folder / f"{DAILY.file}.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_the_largest_rate_ahead_includes_now_and_the_horizon() -> None:
    rates = np.array([5.0, 1.0, 2.0, 9.0, 3.0])

    assert forecast.largest_ahead(rates, 30.0).tolist() == [5.0, 9.0, 9.0]


def test_nothing_is_observed_in_a_hole_of_a_series(tmp_path: Path) -> None:
    write_daily(tmp_path, days=1)
    loaded = forecast.load(DAILY, tmp_path, dispersed=False)

    assert not loaded.known[25 * 40 : 35 * 40].any()
    assert loaded.known[45 * 40 :].all()
    assert loaded.rate.min() > 9.0


def test_dispersed_requests_have_the_same_mean_and_more_variance(tmp_path: Path) -> None:
    write_daily(tmp_path, days=2)
    poisson, dispersed = (forecast.load(DAILY, tmp_path, dispersed=each) for each in (False, True))

    assert dispersed.counted.mean() == pytest.approx(poisson.counted.mean(), rel=0.05)
    assert (dispersed.counted - dispersed.rate).std() > 2.0 * (poisson.counted - poisson.rate).std()


def test_a_daily_series_is_forecast_better_than_by_persistence(tmp_path: Path) -> None:
    write_daily(tmp_path, days=4)
    result = forecast.run(forecast.load(DAILY, tmp_path, dispersed=False), 615.0)

    assert result.forecast < 0.7 * result.level < 0.7 * result.raw
    assert result.methods[Method.SEASON] + result.methods[Method.SEASON_TREND] > 0


def test_absent_traces_are_said_to_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["forecast.py", "--traces", str(tmp_path)])

    assert forecast.main() == 0
    assert "does not exist; nothing measured" in capsys.readouterr().err


def test_real_traces_are_forecast_no_worse_than_by_either_persistence() -> None:
    case = forecast.CASES[1]
    if not (TRACES / f"{case.file}.csv.gz").is_file():
        pytest.skip("needs ../shared/traces/azure2024_conv_week_series.csv.gz")
    result = forecast.run(forecast.load(case, TRACES, dispersed=False), 615.0)

    assert result.forecast < 0.95 * result.level < 0.95 * result.raw
    assert 0.85 < result.within_two < 0.99
