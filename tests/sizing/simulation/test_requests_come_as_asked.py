from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.simulation import (
    Requests,
    bursty_arrivals,
    drawn_requests,
    equal_requests,
    poisson_arrivals,
    read_trace,
)
from firsttoken_sizing.workload import Workload

CODE_TRACE = Path(__file__).resolve().parents[3].parent / "shared/traces/azure2023_code.csv.gz"
GOOD = "arrival_s,input_tokens,output_tokens\n1.5,100,10\n0.5,200,20\n"


def test_poisson_arrivals_have_their_rate_and_exponential_gaps() -> None:
    gaps = np.diff(poisson_arrivals(20.0, 100_000, np.random.default_rng(1)))

    assert gaps.mean() == pytest.approx(1 / 20, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("variation", [0.5, 2.0, 4.0])
def test_bursty_arrivals_have_their_rate_and_their_variation(variation: float) -> None:
    gaps = np.diff(bursty_arrivals(20.0, 200_000, variation, np.random.default_rng(2)))

    assert gaps.mean() == pytest.approx(1 / 20, rel=0.04)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


def test_lengths_are_drawn_from_the_declared_spread_with_a_cached_share() -> None:
    lengths = lengths_of(Workload(1000, 100, input_tokens_p99=3000, cached_input_percent=40))

    requests = drawn_requests(lengths, np.arange(50_000.0), np.random.default_rng(3))

    assert requests.input_tokens.mean() == pytest.approx(1000, rel=0.02)
    assert np.quantile(requests.input_tokens, 0.99) == pytest.approx(3000, rel=0.15)
    assert requests.uncached_input_tokens == pytest.approx(0.6 * requests.input_tokens, abs=1)
    assert (requests.output_tokens == 100).all()


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        (([], [], [], []), "requests"),
        (([0.0, 1.0], [1], [1], [1]), "requests"),
        (([1.0, 0.0], [1, 1], [1, 1], [1, 1]), "requests.arrival_s"),
        (([float("nan")], [1], [1], [1]), "requests.arrival_s"),
        (([-1.0], [1], [1], [1]), "requests.arrival_s"),
        (([0.0], [1], [0], [1]), "requests.uncached_input_tokens"),
        (([0.0], [1], [2], [1]), "requests.uncached_input_tokens"),
        (([0.0], [1], [1], [0]), "requests.output_tokens"),
    ],
)
def test_requests_that_do_not_fit_together_are_refused(columns: tuple[list[float], ...], field: str) -> None:
    arrival, *tokens = columns
    with pytest.raises(InvalidInput) as refused:
        Requests(np.array(arrival, float), *(np.array(column, np.int64) for column in tokens))
    assert refused.value.field == field


def test_a_closed_loop_needs_a_client() -> None:
    with pytest.raises(InvalidInput, match="concurrency"):
        equal_requests(Lengths(1, 1, 1), np.zeros(3), concurrency=0)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_a_trace_is_sorted_and_counts_from_its_first_request(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(gzip.compress(GOOD.encode()) if zipped else GOOD.encode())

    requests = read_trace(file, cached_input_percent=50)

    assert requests.arrival_s.tolist() == [0.0, 1.0]
    assert requests.input_tokens.tolist() == [200, 100]
    assert requests.uncached_input_tokens.tolist() == [100, 50]
    assert requests.output_tokens.tolist() == [20, 10]
    assert len(read_trace(file, until_s=0.9)) == 1


def test_columns_of_a_trace_are_found_by_name(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("output_tokens,user,arrival_s,input_tokens\n10,7,0,100\n")

    assert read_trace(file).input_tokens.tolist() == [100]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t,rps\n0,1\n", "no column arrival_s, input_tokens, output_tokens"),
        ("arrival_s,input_tokens,output_tokens\n", "no requests"),
        ("", "no column"),
        (GOOD + "2.0,nan,10\n", "input_tokens of row 2 is nan"),
        (GOOD + "2.0,10,0\n", "output_tokens of row 2 is 0"),
        (GOOD + "-2.0,10,1\n", "arrival_s of row 2 is -2"),
        (GOOD + "2.0,ten,1\n", "ten"),
    ],
)
def test_a_trace_that_cannot_be_read_says_where(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)

    with pytest.raises(InvalidInput) as refused:
        read_trace(file, field="--trace")
    assert refused.value.field == "--trace"
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_or_not_whole_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No such file"):
        read_trace(tmp_path / "none.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(gzip.compress(GOOD.encode())[:-10])
    with pytest.raises(InvalidInput, match=r"broken.csv.gz"):
        read_trace(broken)


def test_a_real_trace_is_read_whole() -> None:
    if not CODE_TRACE.exists():
        pytest.skip("needs ../shared/traces")

    requests = read_trace(CODE_TRACE)

    assert len(requests) == 8819
    assert requests.arrival_s[-1] == pytest.approx(57.3 * 60, rel=0.01)
