from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from firsttoken_lab.replay.traffic import Shaping, Traffic, read_traffic
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths

DECLARED = Lengths(input_tokens=1000, uncached_input_tokens=500, output_tokens=100)
REQUESTS = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{10 + i / 4},{500 + i},{20 + i}\n" for i in range(400))


def read(tmp_path: Path, text: str, zipped: bool = False, **shaping: float) -> Traffic:
    file = tmp_path / "trace.csv"
    file.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return read_traffic(file, DECLARED, Shaping(**shaping))  # type: ignore[arg-type]


@pytest.mark.parametrize("zipped", [False, True])
def test_recorded_requests_are_taken_as_they_are(tmp_path: Path, zipped: bool) -> None:
    requests = read(tmp_path, REQUESTS, zipped).requests

    assert requests.arrival_s.tolist() == [i / 4 for i in range(400)]
    assert requests.input_tokens.tolist() == list(range(500, 900))
    assert requests.uncached_input_tokens[0] == 250  # half of a prompt is declared to be cached
    assert requests.output_tokens.tolist() == list(range(20, 420))


def test_a_rate_scale_keeps_that_share_of_recorded_requests(tmp_path: Path) -> None:
    thin = read(tmp_path, REQUESTS, rate_scale=0.25).requests

    assert len(thin) == pytest.approx(100, abs=30)
    assert set(thin.input_tokens.tolist()) <= set(range(500, 900))


def test_requests_that_no_replica_holds_are_left_out_and_counted(tmp_path: Path) -> None:
    # Request i has 520 + 2 i tokens: those up to 240 have at most 1000.
    traffic = read(tmp_path, REQUESTS, longest_tokens=1000)

    assert (len(traffic.requests), traffic.left_out) == (241, 159)


def test_requests_follow_the_straight_lines_between_the_points_of_a_series(tmp_path: Path) -> None:
    requests = read(tmp_path, "t,rps,other\n100,10,x\n1100,50,x\n2100,0,x\n").requests
    counts = np.bincount((requests.arrival_s // 250).astype(int), minlength=8)

    # Areas under the lines from 10 to 50 and from 50 to 0, in quarters.
    expected = np.array([3750, 6250, 8750, 11250, 10937.5, 7812.5, 4687.5, 1562.5])
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all()
    assert (np.diff(requests.arrival_s) >= 0).all()
    assert requests.arrival_s[-1] < 2000


def test_a_rate_scale_multiplies_a_series(tmp_path: Path) -> None:
    assert len(read(tmp_path, "t,rps\n0,100\n1000,100\n", rate_scale=0.1).requests) == pytest.approx(10_000, rel=0.05)
    assert len(read(tmp_path, "t,rps\n0,100\n100,100\n", rate_scale=2).requests) == pytest.approx(20_000, rel=0.05)


def test_lengths_are_log_normal_around_the_mean_of_the_resource_or_of_the_rows(tmp_path: Path) -> None:
    of_resource = read(tmp_path, "t,rps\n0,50\n1000,50\n").requests
    of_rows = read(
        tmp_path, "t,rps,mean_in,mean_out\n0,50,200,30\n1000,50,200,30\n1001,0,0,0\n", length_variation=0.3
    ).requests

    for tokens, mean, variation in (
        (of_resource.input_tokens, 1000, 1.0),
        (of_resource.output_tokens, 100, 1.0),
        (of_rows.input_tokens, 200, 0.3),
        (of_rows.output_tokens, 30, 0.3),
    ):
        assert tokens.mean() == pytest.approx(mean, rel=0.02)
        assert tokens.std() / tokens.mean() == pytest.approx(variation, rel=0.08)
        logs = np.log(tokens)
        assert np.median(logs) == pytest.approx(logs.mean(), abs=0.03)
    assert of_rows.uncached_input_tokens.mean() == pytest.approx(100, rel=0.03)


def test_made_requests_fit_into_a_replica(tmp_path: Path) -> None:
    requests = read(tmp_path, "t,rps\n0,50\n1000,50\n", longest_tokens=800).requests

    assert (requests.input_tokens + requests.output_tokens).max() <= 800
    assert requests.input_tokens.min() >= 1


def test_the_seed_decides(tmp_path: Path) -> None:
    first, same, other = (read(tmp_path, "t,rps\n0,5\n100,5\n", seed=seed).requests for seed in (1, 1, 2))

    assert first.arrival_s.tolist() == same.arrival_s.tolist()
    assert first.arrival_s.tolist() != other.arrival_s.tolist()


@pytest.mark.parametrize(
    ("text", "shaping", "words"),
    [
        pytest.param("t,rps\n0,5\n9,x\n", {}, "line 3, column rps: 'x' is no number", id="a word"),
        pytest.param("t,rps\n0,5\n9\n", {}, "line 3, column rps: '' is no number", id="a missing value"),
        pytest.param("t,rps\n0,5\n9,-1\n", {}, "line 3, column rps: -1 is negative", id="a negative rate"),
        pytest.param("t,rps\n0,5\n9,nan\n", {}, "line 3, column rps: nan is negative or not finite", id="NaN"),
        pytest.param("t,rps\n9,5\n0,5\n", {}, "line 3, column t: 0 does not rise", id="time runs backwards"),
        pytest.param("t,rps,mean_in\n0,5,9\n9,5,0\n", {}, "line 3, column mean_in: 0 is below 1", id="no tokens"),
        pytest.param("t,rps\n0,5\n", {}, "fewer than two points", id="one point"),
        pytest.param("t,rps\n0,0\n9,0\n", {}, "gives no requests", id="no traffic"),
        pytest.param("t,rps\n0,1e9\n9,1e9\n", {}, "more than 5e+07", id="too much traffic"),
        pytest.param(
            "a,b\n0,5\n", {}, "line 1 names neither arrival_s,input_tokens,output_tokens nor t,rps", id="else"
        ),
        pytest.param("", {}, "line 1 names neither", id="an empty file"),
        pytest.param(REQUESTS, {"rate_scale": 2}, "--rate-scale: 2 adds to recorded requests", id="adding requests"),
        pytest.param(REQUESTS, {"longest_tokens": 9}, "has no request that is left", id="nothing fits"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_place(
    tmp_path: Path, text: str, shaping: dict[str, float], words: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, text, **shaping)

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.csv: No such file"):
        read_traffic(tmp_path / "nowhere.csv", DECLARED, Shaping())
