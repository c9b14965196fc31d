from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from firsttoken_sizing.simulation import KvAdmission, Requests, Settings, simulate
from firsttoken_sizing.step import StepModel
from tests.fixtures.hypothesis_scale import examples
from tests.sizing.simulation.step_by_step import simulate_steps
from tests.sizing.simulation.strategies import Case, cases

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)


@settings(max_examples=examples(150))
@given(cases())
def test_every_request_has_the_times_of_the_plain_simulation(case: Case) -> None:
    step, requests, how = case

    outcome = simulate(step, requests, how)
    plain = simulate_steps(step, requests, how)

    assert outcome.admitted_s == pytest.approx([r.admitted for r in plain], rel=1e-9)
    assert outcome.first_token_s == pytest.approx([r.first_token for r in plain], rel=1e-9)
    assert outcome.finish_s == pytest.approx([r.finish for r in plain], rel=1e-9)


def test_so_do_requests_whose_cache_is_taken_away() -> None:
    rng = np.random.default_rng(3)
    prompt = rng.integers(50, 150, 60)
    requests = Requests(np.cumsum(rng.exponential(0.02, 60)), prompt, prompt, rng.integers(100, 300, 60))
    how = Settings(kv_cache_tokens=1200, kv_admission=KvAdmission.PAGED)

    outcome = simulate(STEP, requests, how)

    assert outcome.preemptions.sum() > 10
    assert outcome.finish_s == pytest.approx([r.finish for r in simulate_steps(STEP, requests, how)], rel=1e-9)
    assert 1100 < outcome.kv_reserved_peak_tokens.max() <= 1200
