"""The engine jumps over runs of alike steps; a reference that walks step by step must agree with it exactly.

Both run on fractions, so "agree" is equality: a jump that lands one step off cannot hide behind a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from firsttoken_lab.emulate.engine import Engine, Sequence
from firsttoken_sizing.step.model import StepModel


@dataclass
class Job:
    arrival: Fraction
    prompt: int
    output: int
    left: int = 0
    first: Fraction | None = None
    finish: Fraction | None = None


def reference(model, jobs, kv_tokens, budget):
    """Walk one step at a time; returns the number of decode tokens."""
    pending = sorted(jobs, key=lambda job: job.arrival)
    waiting, batch = [], []
    now, reserved, decoded = Fraction(0), 0, 0
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
    decode_seconds: Fraction = Fraction(0)
    finished_order: list = field(default_factory=list)

    def prefilled(self, sequence):
        assert sequence.first_token_seconds is not None

    def decoded(self, steps, sequences, first_seconds, growth_seconds):
        self.decoded_tokens += steps * sequences
        self.decode_seconds += sequences * (steps * first_seconds + growth_seconds * (steps * (steps - 1) // 2))

    def finished(self, sequence):
        self.finished_order.append(sequence.finished_seconds)


fractions = st.fractions(min_value=0, max_value=2, max_denominator=64)
small = st.fractions(min_value=0, max_value=Fraction(1, 8), max_denominator=256)
models = st.builds(
    StepModel,
    base_seconds=st.fractions(min_value=Fraction(1, 256), max_value=Fraction(1, 4), max_denominator=256),
    per_sequence_seconds=small,
    per_context_token_seconds=small,
    per_prefill_token_seconds=small,
    per_prefill_token_squared_seconds=small,
    max_batch=st.integers(1, 5),
)
jobs_strategy = st.lists(
    st.builds(
        Job,
        arrival=st.fractions(min_value=0, max_value=60, max_denominator=8),
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
    looks=st.lists(fractions, max_size=6),
)
def test_every_first_token_and_finish_time_equals_the_stepwise_walk(model, jobs, kv_tokens, budget, looks):
    jobs.sort(key=lambda job: job.arrival)
    tally = Tally()
    engine = Engine(model, observer=tally, kv_tokens=kv_tokens, max_prefill_tokens=budget, start_seconds=Fraction(0))
    sequences = [Sequence(job.arrival, job.prompt, job.output) for job in jobs]
    for sequence in sequences:
        engine.submit(sequence)
        for look in looks:  # looking in between must not change what happens
            if sequence is sequences[-1]:
                engine.advance(sequence.arrival_seconds + look)
            engine.report()
            assert engine.running + engine.waiting == engine.in_flight
            assert engine.running <= model.max_batch
            assert 0 <= engine.kv_used_tokens <= kv_tokens
    engine.advance(Fraction(10**9))

    expected_tokens = reference(model, jobs, kv_tokens, budget)

    assert [(s.first_token_seconds, s.finished_seconds) for s in sequences] == [(j.first, j.finish) for j in jobs]
    assert tally.decoded_tokens == expected_tokens == sum(job.output - 1 for job in jobs)
    assert tally.finished_order == sorted(tally.finished_order)
    assert engine.in_flight == 0
    assert engine.kv_used_tokens == 0
    for sequence in sequences:
        if sequence.output_tokens > 1:
            assert sequence.itl_seconds == (sequence.finished_seconds - sequence.first_token_seconds) / (
                sequence.output_tokens - 1
            )


@given(
    model=models, outputs=st.lists(st.integers(1, 20), min_size=1, max_size=5), moments=st.lists(fractions, max_size=8)
)
def test_tokens_generated_at_any_moment_are_those_of_the_steps_that_ended(model, outputs, moments):
    engine = Engine(model, start_seconds=Fraction(0))
    sequences = [Sequence(Fraction(0), 3, output) for output in outputs]
    for sequence in sequences:
        engine.submit(sequence)
    seen = [0] * len(sequences)
    for moment in sorted(moments):
        engine.advance(moment)
        now = [engine.tokens_generated(sequence) for sequence in sequences]
        assert all(before <= after <= s.output_tokens for before, after, s in zip(seen, now, sequences, strict=True))
        boundary = engine.next_boundary_seconds()
        assert boundary is None or boundary > moment or engine.in_flight
        seen = now
    while (boundary := engine.next_boundary_seconds()) is not None:
        before = [engine.tokens_generated(sequence) for sequence in sequences]
        engine.advance(boundary)
        after = [engine.tokens_generated(sequence) for sequence in sequences]
        assert all(0 <= b - a <= 1 for a, b in zip(before, after, strict=True))
        assert after != before
    assert [engine.tokens_generated(sequence) for sequence in sequences] == outputs
