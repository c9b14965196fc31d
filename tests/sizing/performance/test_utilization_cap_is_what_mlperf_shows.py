"""Source of `PARAMETERS.capacity.max_utilization`: published Poisson against offline throughput of the same systems."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

from firsttoken_sizing import Arrivals, Percentile, size
from firsttoken_sizing.parameters import PARAMETERS
from tests.fixtures.worked_examples import call_center

MLPERF_CSV = Path(__file__).resolve().parents[4] / "shared/data/mlperf_v41_llm.csv"


def server_over_offline(model: str) -> list[float]:
    """Throughput with Poisson arrivals as a share of the offline one, of each submitted system."""
    if not MLPERF_CSV.is_file():
        pytest.skip("needs ../shared/data/mlperf_v41_llm.csv")
    systems: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with MLPERF_CSV.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["model"] == model:
                system = row["engine"], row["notes"].split()[0]
                systems[system][row["load_mode"]] = float(row["request_throughput_rps"])
    return [loads["open_poisson"] / loads["offline_max"] for loads in systems.values() if len(loads) == 2]


def test_seventeen_systems_serve_llama2_70b_at_a_median_of_0_90_of_offline() -> None:
    ratios = server_over_offline("llama2-70b-99")

    assert len(ratios) == 17
    assert median(ratios) == pytest.approx(PARAMETERS.capacity.max_utilization, abs=0.005)
    assert (min(ratios), max(ratios)) == pytest.approx((0.84, 0.99), abs=0.005)


@pytest.mark.parametrize("model", ["mixtral-8x7b", "gptj-99"])
def test_the_other_models_reach_more_so_the_cap_is_the_careful_one(model: str) -> None:
    assert 0.965 <= median(server_over_offline(model)) <= 0.98


@pytest.mark.parametrize("percentile", [Percentile.MEAN, Percentile.P99], ids=str)
def test_no_limit_is_so_loose_that_a_replica_is_sized_above_the_cap(percentile: Percentile) -> None:
    sizing = size(call_center(ttft_milliseconds=1e6, percentile=percentile, arrivals=Arrivals.POISSON))

    assert sizing.utilization_cap_percent == pytest.approx(100 * PARAMETERS.capacity.max_utilization)
    assert sizing.binding_constraint == "Utilization"
