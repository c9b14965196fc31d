"""Speed goals of docs/design/sizing.md, with room for a busy machine: the best of several runs counts."""

from __future__ import annotations

from time import perf_counter

import pytest

from firsttoken_sizing import Arrivals, size
from tests.fixtures.worked_examples import call_center


@pytest.mark.parametrize(("arrivals", "seconds"), [(Arrivals.CLOSED_LOOP, 0.05), (Arrivals.POISSON, 1.0)], ids=str)
def test_one_resource_over_every_tensor_parallel(arrivals: Arrivals, seconds: float) -> None:
    request = call_center(arrivals=arrivals)
    size(request)  # reads the catalog

    durations = []
    for _ in range(5):
        start = perf_counter()
        size(request)
        durations.append(perf_counter() - start)

    assert min(durations) < seconds
