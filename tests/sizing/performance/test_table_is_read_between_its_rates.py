from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import STATISTICS


def table(rates: list[float], *, unknown: tuple[int, ...] = (), sized_replicas: int = 1) -> CapacityTable:
    rng = np.random.default_rng(len(rates))
    columns = [np.cumsum(rng.random((len(rates), 5)), axis=0) for _ in range(3)]
    for column in columns:
        column[:, list(unknown)] = np.nan
    return CapacityTable(
        rates=np.array(rates),
        ttft=columns[0],
        itl=columns[1],
        end_to_end=columns[2],
        kv_percent=np.cumsum(rng.random(len(rates))),
        capacity_requests_per_second=3.0,
        saturation_requests_per_second=rates[-1],
        capacity_alone_requests_per_second=2.0 if sized_replicas > 1 else None,
        sized_replicas=sized_replicas,
    )


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=8, unique=True).map(sorted),
    st.floats(0, 200),
    st.sampled_from([(), (1,), (2, 4)]),
)
def test_every_number_is_on_the_straight_line_between_two_rates(
    rates: list[float], rate: float, unknown: tuple[int, ...]
) -> None:
    read = table(rates, unknown=unknown)
    found = read.at(rate)
    for columns, latency in ((read.ttft, found.ttft), (read.itl, found.itl), (read.end_to_end, found.end_to_end)):
        for i, statistic in enumerate(STATISTICS):
            expected = float(np.interp(rate, read.rates, columns[:, i]))
            value = getattr(latency, statistic)
            assert value is None if math.isnan(expected) else value == pytest.approx(expected)
    assert read.means_at(rate) == (found.ttft.mean, found.itl.mean)
    assert found.kv_percent == pytest.approx(float(np.interp(rate, read.rates, read.kv_percent)))


@pytest.mark.slow
@given(st.floats(0, 1e4), st.floats(0.5, 1.0), st.integers(1, 40))
def test_replicas_are_the_fewest_that_are_enough(rate: float, factor: float, sized_replicas: int) -> None:
    shared = table([1.0, 4.0], sized_replicas=sized_replicas)
    found = shared.replicas_for(rate, factor)

    def load(replicas: int) -> float:
        return rate / (replicas * shared.capacity_of_one_among(replicas) * factor)

    assert found == 0 or load(found) <= 1 + 1e-8
    assert found <= 1 or load(found - 1) > 1 - 1e-8
