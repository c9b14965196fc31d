"""Speed goals of docs/design/sizing.md."""

from __future__ import annotations

import pytest

from firsttoken_sizing import Arrivals, size
from tests.fixtures.reference_core import reference_seconds
from tests.fixtures.worked_examples import call_center


@pytest.mark.slow
@pytest.mark.parametrize(("arrivals", "seconds"), [(Arrivals.CLOSED_LOOP, 0.05), (Arrivals.POISSON, 1.0)], ids=str)
def test_one_resource_over_every_tensor_parallel(arrivals: Arrivals, seconds: float) -> None:
    request = call_center(arrivals=arrivals)
    size(request)  # reads the catalog

    assert reference_seconds(lambda: size(request)) < seconds
