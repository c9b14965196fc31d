"""Closed-loop batch simulation: which of a closed loop's equal requests run together, step by step.

Requests of equal length that got their first token together finish together and are replaced together, so this moves
groups, not requests, and jumps over the steps in which no request comes or goes: a few events for each group and round.
What splits a round into groups is the prompt budget of a step, and the front end, which hands requests over one at a
time.

Deterministic; it knows nothing of statistics (`closed_loop` has those) and reserves no memory beyond `max_batch`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.rounding import NOISE, floor
from firsttoken_sizing.step.model import StepModel


@dataclass(frozen=True, slots=True)
class ServedGroup:
    """Requests that were sent, got their first token and finished at the same times (seconds)."""

    requests: int
    sent: float
    first_token: float
    finished: float


@dataclass(slots=True)
class _Coming:
    """Requests that were sent together and reach the engine one after the other."""

    requests: int
    sent: float
    first_arrival: float


@dataclass(frozen=True, slots=True)
class _Running:
    """Requests that got their first token together. `members`: how many, and when they were sent."""

    last_step: int
    first_token: float
    members: tuple[tuple[int, float], ...]

    @property
    def size(self) -> int:
        return sum(requests for requests, _ in self.members)


class ClosedLoopBatches:
    """One replica whose `concurrency` clients send again as soon as they are answered; at first it is empty.

    `handover_seconds`: the front end passes requests on so far apart, the first as long after the answer that frees its
    client.
    """

    def __init__(
        self, step: StepModel, lengths: Lengths, concurrency: int, scheduler: Scheduler, handover_seconds: float
    ) -> None:
        uncached, cached = lengths.uncached_input_tokens, lengths.cached_input_tokens
        self._step, self._input_tokens = step, lengths.input_tokens
        self._decode_steps = round(lengths.decode_steps)
        self._prompt_tokens = max(1.0, uncached)
        self._prefill = step.prefill_seconds(uncached, cached)
        self._other_stages = step.prefill_latency_seconds(uncached, cached) - self._prefill
        self._scheduler, self._handover = scheduler, handover_seconds
        self._whole_prompts = float(max(1, int(scheduler.tokens_per_step // self._prompt_tokens)))
        self._coming = deque([_Coming(concurrency, 0.0, 0.0)])
        self._last_arrival = handover_seconds * (concurrency - 1)
        self._running: deque[_Running] = deque()
        self._costs: dict[int, tuple[float, float]] = {}
        self._now = 0.0
        self._steps_done = 0
        self._batch = 0
        self._begun = 0
        """Sum of the steps at which the running ones began: gives their context without a loop over them."""
        self._computed = 0.0
        """Share of the next prompt that earlier steps computed (chunked prefill)."""

    def serve(self) -> Iterator[ServedGroup]:
        """Groups in the order in which they finish, without end."""
        while True:
            budget = self._prompts_a_step()
            ready = self._ready(min(self._step.max_batch - self._batch, math.ceil(self._computed + budget)))
            if not ready and not self._batch:
                self._now = self._coming[0].first_arrival
                continue
            share = min(budget, ready - self._computed)
            finished = floor(self._computed + share)
            self._computed = max(0.0, self._computed + share - finished)
            self._advance(ready, share, finished)
            if finished:
                self._start(finished)
            while self._running and self._running[0].last_step <= self._steps_done:
                yield from self._finish(self._running.popleft())

    def _prompts_a_step(self) -> float:
        """Whole prompts, or with chunks what is left of the step's tokens: always something, or nothing would start."""
        if self._scheduler.chunked_prefill:
            return max(1.0, self._scheduler.tokens_per_step - self._batch) / self._prompt_tokens
        return self._whole_prompts

    def _ready(self, most: int) -> int:
        """Requests that are at the engine, up to `most`."""
        ready = 0
        for group in self._coming:
            waited = self._now - group.first_arrival + NOISE
            if waited < 0 or ready >= most:
                break
            arrived = min(group.requests, int(waited / self._handover) + 1) if self._handover else group.requests
            ready += arrived
            if arrived < group.requests:
                break
        return min(ready, most)

    def _advance(self, ready: int, share: float, finished: int) -> None:
        """Run one step that computes `share` prompts, or as many alike as follow before a request comes or goes."""
        batch = self._batch
        if batch not in self._costs:
            self._costs[batch] = float(self._step.batch_seconds(batch)), float(self._step.context_seconds(batch))
        fixed, per_context_token = self._costs[batch]
        context = batch * self._input_tokens + batch * self._steps_done - self._begun
        duration = fixed + per_context_token * context
        steps = 1
        if not ready:
            steps = self._running[0].last_step - self._steps_done
            if batch < self._step.max_batch:
                until_next = self._coming[0].first_arrival - self._now if self._coming else math.inf
                steps = steps if until_next >= steps * duration else max(1, math.ceil(until_next / duration))
            duration += per_context_token * batch * (steps - 1) / 2
        elif not finished:
            # A long prompt fills many steps with chunks of one size.
            steps = max(1, int((1 - self._computed) / share))
            steps = min(steps, self._running[0].last_step - self._steps_done) if self._running else steps
            self._computed += (steps - 1) * share
        self._now += steps * (duration + self._prefill * share)
        self._steps_done += steps

    def _start(self, wanted: int) -> None:
        """The first `wanted` requests that wait have their first token now."""
        members: list[tuple[int, float]] = []
        missing = wanted
        while missing:
            head = self._coming[0]
            taken = min(missing, head.requests)
            members.append((taken, head.sent))
            missing -= taken
            head.first_arrival += self._handover * taken
            head.requests -= taken
            if not head.requests:
                self._coming.popleft()
        self._running.append(_Running(self._steps_done + self._decode_steps, self._now, tuple(members)))
        self._batch += wanted
        self._begun += self._steps_done * wanted

    def _finish(self, group: _Running) -> Iterator[ServedGroup]:
        """A group is answered, and its clients send again."""
        size = group.size
        self._batch -= size
        self._begun -= (group.last_step - self._decode_steps) * size
        first = max(self._last_arrival, self._now) + self._handover
        self._coming.append(_Coming(size, first, first))
        self._last_arrival = first + self._handover * (size - 1)
        later = self._other_stages
        for requests, sent in group.members:
            yield ServedGroup(requests, sent, group.first_token + later, self._now + later)
