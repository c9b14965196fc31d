"""The engine jumps over runs of alike steps; a reference that walks step by step must agree with it exactly.

Every time is a small multiple of a power of 1/2, which floats add without rounding, so "agree" is equality: a jump that
lands one step off cannot hide behind a tolerance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.step.model import StepModel


@dataclass
class Job:
    arrival: float
    prompt: int
    output: int
    left: int = 0
    first: float | None = None
    finish: float | None = None


def reference(model, jobs, kv_tokens, budget):
    """Walk one step at a time; returns the number of decode tokens."""
    pending = sorted(jobs, key=lambda job: job.arrival)
    waiting, batch = [], []
    now, reserved, decoded = 0.0, 0, 0
    while pending or waiting or batch:
        if not waiting and not batch:
            now = max(now, pending[0].arrival)
        while pending and pending[0].arrival <= now:
            waiting.append(pending.pop(0))
        prompts, tokens = [], 0
        while waiting:
            job = waiting[0]
            if len(batch) + len(prompts) >= model.max_batch or reserved + job.prompt + job.output > kv_tokens:
                break
            if tokens and tokens + job.prompt > budget:
                break
            reserved += job.prompt + job.output
            tokens += job.prompt
            prompts.append(waiting.pop(0))
        context = sum(job.prompt + job.output - job.left for job in batch)
        now += (
            model.base_seconds
            + model.per_sequence_seconds * len(batch)
            + model.per_context_token_seconds * context
            + model.per_prefill_token_seconds * tokens
            + model.per_prefill_token_squared_seconds * sum(job.prompt**2 for job in prompts)
        )
        decoded += len(batch)
        for job in batch:
            job.left -= 1
        for job in prompts:
            job.first, job.left = now, job.output - 1
        batch += prompts
        for job in [job for job in batch if job.left == 0]:
            job.finish = now
            reserved -= job.prompt + job.output
            batch.remove(job)
    return decoded


@dataclass
class Tally:
    decoded_tokens: int = 0
    decode_seconds: float = 0.0
    finished_order: list = field(default_factory=list)

    def prefilled(self, request):
        assert request.first_token > 0

    def decoded(self, steps, requests, first_seconds, growth_seconds):
        self.decoded_tokens += steps * requests
        self.decode_seconds += requests * (steps * first_seconds + growth_seconds * (steps * (steps - 1) // 2))

    def finished(self, request):
        self.finished_order.append(request.finish)


def binary(least, most, denominator):
    """Multiples of 1/denominator from `least` to `most`."""
    return st.integers(math.ceil(least * denominator), math.floor(most * denominator)).map(lambda n: n / denominator)


moments = binary(0, 2, 64)
small = binary(0, 1 / 8, 256)
models = st.builds(
    StepModel,
    base_seconds=binary(1 / 256, 1 / 4, 256),
    per_sequence_seconds=small,
    per_context_token_seconds=small,
    per_prefill_token_seconds=small,
    per_prefill_token_squared_seconds=small,
    max_batch=st.integers(1, 5),
)
jobs_strategy = st.lists(
    st.builds(
        Job,
        arrival=binary(0, 60, 8),
        prompt=st.integers(1, 20),
        output=st.integers(1, 30),
    ),
    min_size=1,
    max_size=12,
)


@given(
    model=models,
    jobs=jobs_strategy,
    kv_tokens=st.integers(50, 160),
    budget=st.integers(1, 60),
    looks=st.lists(moments, max_size=6),
)
def test_every_first_token_and_finish_time_equals_the_stepwise_walk(model, jobs, kv_tokens, budget, looks):
    jobs.sort(key=lambda job: job.arrival)
    tally = Tally()
    settings = Settings(kv_cache_tokens=kv_tokens, scheduler=Scheduler(budget))
    engine = OnlineReplica(model, settings, observer=tally)
    requests = []
    for job in jobs:
        requests.append(engine.submit(job.arrival, job.prompt, job.output))
        for look in looks:  # looking in between must not change what happens
            if job is jobs[-1]:
                engine.advance(job.arrival + look)
            engine.report()
            assert engine.running + engine.waiting == engine.in_flight
            assert engine.running <= model.max_batch
            assert 0 <= engine.kv_used_tokens <= kv_tokens
    engine.advance(1e9)

    expected_tokens = reference(model, jobs, kv_tokens, budget)

    assert [(r.first_token, r.finish) for r in requests] == [(j.first, j.finish) for j in jobs]
    assert tally.decoded_tokens == expected_tokens == sum(job.output - 1 for job in jobs)
    assert tally.finished_order == sorted(tally.finished_order)
    assert engine.in_flight == 0
    assert engine.kv_used_tokens == 0
    assert tally.decode_seconds == sum(request.finish - request.first_token for request in requests)
    for request in requests:
        if request.output > 1:
            assert request.itl_seconds == (request.finish - request.first_token) / (request.output - 1)


@given(
    model=models, outputs=st.lists(st.integers(1, 20), min_size=1, max_size=5), moments=st.lists(moments, max_size=8)
)
def test_tokens_generated_at_any_moment_are_those_of_the_steps_that_ended(model, outputs, moments):
    engine = OnlineReplica(model)
    requests = [engine.submit(0.0, 3, output) for output in outputs]
    seen = [0] * len(requests)
    for moment in sorted(moments):
        engine.advance(moment)
        now = [engine.tokens_generated(request) for request in requests]
        assert all(before <= after <= r.output for before, after, r in zip(seen, now, requests, strict=True))
        boundary = engine.next_event_seconds()
        assert boundary is None or boundary > moment or engine.in_flight
        seen = now
    while (boundary := engine.next_event_seconds()) is not None:
        before = [engine.tokens_generated(request) for request in requests]
        engine.advance(boundary)
        after = [engine.tokens_generated(request) for request in requests]
        assert all(0 <= b - a <= 1 for a, b in zip(before, after, strict=True))
        assert after != before
    assert [engine.tokens_generated(request) for request in requests] == outputs
