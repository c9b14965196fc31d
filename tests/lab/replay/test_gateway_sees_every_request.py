"""Counts of a gateway are what a look at all requests gives, window by window."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from firsttoken_lab.replay.gateway import Gateway
from firsttoken_sizing.simulation.fleet import Fleet, records
from firsttoken_sizing.simulation.kernel import WorkItem

WINDOW_SECONDS = 60.0


@pytest.fixture
def fleet() -> Fleet:
    """400 requests in 20 minutes that were played already: 0 as a time is what never came."""
    rng = np.random.default_rng(1)
    requests = records(WorkItem, 400)
    requests.arrival = np.sort(rng.uniform(0, 1200, 400))
    requests.first_token = requests.arrival + rng.exponential(8, 400)
    requests.output = rng.integers(1, 50, 400)
    requests.finish = requests.first_token + (requests.output - 1) * rng.uniform(0.01, 3, 400)
    requests.input = rng.integers(10, 1000, 400)
    requests.uncached = requests.input - 5
    requests.first_token[390:] = requests.finish[390:] = 0
    return cast(Fleet, SimpleNamespace(requests=requests, sent=0))


def test_each_window_counts_what_falls_into_it(fleet: Fleet) -> None:
    gateway, requests = Gateway(fleet), fleet.requests
    counted = 0
    for now in np.arange(30.0, 1201.0, 30.0):
        # The fleet may stand later than the last scrape.
        fleet.sent = int((requests.arrival <= now + 5).sum())  # type: ignore[misc]
        seen = gateway.look(float(now)).seen(WINDOW_SECONDS)
        came, began, ended = (
            (at > max(0.0, now - WINDOW_SECONDS)) & (at <= now)
            for at in (requests.arrival, requests.first_token, requests.finish)
        )
        several = ended & (requests.output > 1)

        assert seen.started == came.sum()
        assert seen.mean_input_tokens == pytest.approx(requests.input[came].mean())
        assert seen.cached_input_share == pytest.approx(5 * came.sum() / requests.input[came].sum())
        assert sorted(seen.ttft_seconds) == sorted((requests.first_token - requests.arrival)[began])
        assert len(seen.tpot_seconds) == several.sum()
        counted += len(seen.tpot_seconds)

    assert counted > 300


def test_an_idle_window_has_no_means(fleet: Fleet) -> None:
    seen = Gateway(fleet).look(600.0).seen(WINDOW_SECONDS)

    assert seen.started == 0
    assert seen.mean_input_tokens is None
    assert seen.mean_output_tokens is None
    assert seen.cached_input_share is None
    assert not len(seen.ttft_seconds)
