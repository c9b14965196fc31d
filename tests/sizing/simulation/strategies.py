"""Small simulations of every kind, for Hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.simulation import KvAdmission, Requests, Settings
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching, Routing

Case = tuple[StepModel, Requests, Settings]


@st.composite
def cases(draw: st.DrawFn, replicas: int = 1) -> Case:
    """A step model, open arrivals and the settings of up to `replicas` replicas; nothing that cannot fit."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    count = draw(st.integers(1, 40))
    arrival = np.cumsum(rng.exponential(draw(st.sampled_from([0.0, 0.01, 0.1])), count))
    uncached = rng.integers(1, 300, count)
    output = rng.integers(1, draw(st.sampled_from([1, 3, 60])) + 1, count)
    requests = Requests(arrival, uncached + rng.integers(0, 50, count), uncached, output)
    mixture = draw(st.booleans())
    step = StepModel(
        base_seconds=5e-3,
        per_sequence_seconds=2e-5,
        per_context_token_seconds=7e-8,
        per_prefill_token_seconds=1.6e-5,
        per_prefill_token_squared_seconds=2e-10,
        max_batch=draw(st.sampled_from([1, 3, 16])),
        expert_seconds=4e-3 if mixture else 0.0,
        idle_expert_share=0.75 if mixture else 0.0,
    )
    settings = Settings(
        batching=draw(st.sampled_from(Batching)),
        scheduler=Scheduler(tokens_per_step=draw(st.sampled_from([16, 100, 1000]))),
        replicas=draw(st.integers(1, replicas)),
        routing=draw(st.sampled_from(Routing)),
        kv_cache_tokens=draw(st.sampled_from([None, 450, 1500])),
        kv_admission=draw(st.sampled_from(KvAdmission)),
    )
    return step, requests, settings
