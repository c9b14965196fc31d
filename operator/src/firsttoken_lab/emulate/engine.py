"""One replica with in-flight batching, in virtual time: who runs in which step, and when each step ends.

Why it exists: the emulated fleet and the emulated server need exact token times without waiting for them. The engine
knows no clock, no HTTP and no metric names; whoever drives it says what time it is (`advance`) and is told what
happened (`EngineObserver`).

The scheduler is that of the sizing model (docs/design/sizing.md, "Closed loop"): at a step boundary waiting requests
are admitted first come, first served, as long as the batch, the KV cache and the prefill token budget have room; a
prompt is computed whole, in one step, beside one token for every sequence that is decoding; the step that computes the
prompt emits the first token. A step takes `w0 + b1*B + k*C + p1*tok + p2*sum(s^2)` (`StepModel`), B and C being the
sequences that decode in it and their context.

Between an admission and the next finish all steps are alike except that C grows by B each, so their durations are an
arithmetic series: the engine jumps over them and costs O(log batch) a request however many tokens it generates.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from firsttoken_sizing.step.model import StepModel


class RequestTooLarge(ValueError):
    """The request would not fit into an empty KV cache, so it could never be admitted."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside an engine. Times are virtual seconds; those still to come are None.

    `cached_tokens` of the input are prefix-cache hits: they occupy KV space and are not computed, only attended to.
    """

    arrival_seconds: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    finish_reason: str = "length"
    """Why it will end: `length` (its limit) or `stop` (the model had no more to say)."""
    started_seconds: float | None = None
    """When the step that computes the prompt began."""
    first_token_seconds: float | None = None
    finished_seconds: float | None = None
    aborted: bool = False
    generated_tokens: int = 0
    """Output tokens emitted, set when the request leaves; before that ask `Engine.tokens_generated`."""
    _joined_step: int = 0
    """Decode steps that the engine had done when the prompt was computed."""

    @property
    def ttft_seconds(self) -> float | None:
        """Arrival to first token, the wait for a step included."""
        return None if self.first_token_seconds is None else self.first_token_seconds - self.arrival_seconds

    @property
    def end_to_end_seconds(self) -> float | None:
        """Arrival to last token."""
        return None if self.finished_seconds is None else self.finished_seconds - self.arrival_seconds

    @property
    def itl_seconds(self) -> float | None:
        """Mean time between two tokens, (E2E - TTFT) / (output tokens - 1); None for a single token."""
        if self.finished_seconds is None or self.first_token_seconds is None or self.generated_tokens < 2:
            return None
        return (self.finished_seconds - self.first_token_seconds) / (self.generated_tokens - 1)


class EngineObserver(Protocol):
    """What an engine reports while it advances, in the order of virtual time."""

    def prefilled(self, sequence: Sequence) -> None:
        """The prompt is computed and the first token is out."""

    def decoded(self, steps: int, sequences: int, first_seconds: float, growth_seconds: float) -> None:
        """Each of `sequences` got a token in each of `steps`, which took `first + i*growth` seconds, i = 0, 1, ..."""

    def finished(self, sequence: Sequence) -> None:
        """The last token is out, or the request was aborted (`sequence.aborted`)."""


@dataclass(slots=True)
class _Run:
    """Planned work: `steps` alike steps from `start`; one that computes `prompts` is a run of its own."""

    start: float
    steps: int
    first: float
    growth: float
    prompts: list[Sequence] = field(default_factory=list)
    told: int = 0
    """Steps already reported to the observer."""

    def end_of(self, steps: int) -> float:
        """Virtual time at which `steps` of the run are done."""
        return self.start + steps * self.first + self.growth * (steps * (steps - 1) // 2)

    def steps_until(self, seconds: float) -> int:
        """Steps done by `seconds` (one that ends exactly then counts), at most those planned."""
        if seconds >= self.end_of(self.steps):
            return self.steps
        span = float(seconds - self.start)
        slope = float(self.growth) / 2
        linear = float(self.first) - slope
        # The root of slope*n^2 + linear*n = span in the form that stays exact when the slope vanishes.
        guess = 2 * span / (linear + math.sqrt(linear * linear + 4 * slope * span)) if span > 0 else 0.0
        done = min(max(int(guess), 0), self.steps)
        while done > 0 and self.end_of(done) > seconds:
            done -= 1
        while self.end_of(done + 1) <= seconds:
            done += 1
        return done


class Engine:
    """A replica. Call `advance` and `submit` with times that never go back.

    A request that arrives exactly at a step boundary joins the step that begins there.
    """

    def __init__(
        self,
        model: StepModel,
        *,
        observer: EngineObserver | None = None,
        kv_tokens: int | None = None,
        max_prefill_tokens: int = 8192,
        start_seconds: float = 0.0,
    ) -> None:
        """Make an idle engine.

        `kv_tokens`: tokens that the KV cache holds (a request reserves input + output); None: only the batch limits.
        `max_prefill_tokens`: uncached prompt tokens of one step; a longer prompt gets a step of its own.
        """
        self.model = model
        self.kv_tokens = kv_tokens
        self.max_prefill_tokens = max_prefill_tokens
        self._observer = observer
        self._now = start_seconds
        self._boundary = start_seconds
        self._waiting: deque[Sequence] = deque()
        self._decoding: list[tuple[int, int, Sequence]] = []
        self._run: _Run | None = None
        self._steps_done = 0
        self._context_tokens = 0
        self._reserved_tokens = 0
        self._joined = 0

    # -- what is going on -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests that no step has taken up yet."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests in the batch: those whose prompt is being computed and those that decode."""
        return len(self._decoding) + (len(self._run.prompts) if self._run else 0)

    @property
    def in_flight(self) -> int:
        """Requests that arrived and are not finished."""
        return self.waiting + self.running

    @property
    def kv_used_tokens(self) -> int:
        """Tokens in the KV cache now (reserved space that is not written yet does not count)."""
        if self._run is None:
            return self._context_tokens
        prompts = sum(sequence.input_tokens for sequence in self._run.prompts)
        return self._context_tokens + prompts + len(self._decoding) * self._run.steps_until(self._now)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0..1; 0 where its size is not known."""
        return self.kv_used_tokens / self.kv_tokens if self.kv_tokens else 0.0

    def tokens_generated(self, sequence: Sequence) -> int:
        """Output tokens that `sequence` has emitted by now."""
        if sequence.first_token_seconds is None:
            return 0
        if sequence.finished_seconds is not None:
            return sequence.generated_tokens
        done = self._steps_done + (self._run.steps_until(self._now) if self._run else 0)
        return 1 + done - sequence._joined_step

    def next_boundary_seconds(self) -> float | None:
        """When the step now running ends; None when idle. NB: this starts the step that is due at the present time."""
        self.advance(self._now)
        if self._run is None:
            self._plan()
        if self._run is None:
            return None
        return self._run.end_of(self._run.steps_until(self._now) + 1)

    # -- what may be done -------------------------------------------------------------------------------------------

    def submit(self, sequence: Sequence) -> None:
        """Take a request at its arrival time (one handed over late joins at the present time; its wait counts).

        Raises:
            RequestTooLarge: input + output exceed the whole KV cache.

        """
        if self.kv_tokens is not None and sequence.input_tokens + sequence.output_tokens > self.kv_tokens:
            raise RequestTooLarge(
                f"{sequence.input_tokens} input + {sequence.output_tokens} output tokens exceed the KV cache of "
                f"{self.kv_tokens} tokens"
            )
        self.advance(sequence.arrival_seconds)
        if self._run is None and self.in_flight == 0:
            self._boundary = max(self._boundary, sequence.arrival_seconds)
        self._waiting.append(sequence)
        if self._run is not None and len(self._waiting) == 1 and self._admissible(sequence, len(self._decoding), 0):
            self._cut(max(self._now, sequence.arrival_seconds))

    def advance(self, until_seconds: float) -> None:
        """Let time pass up to and including `until_seconds`."""
        while True:
            if self._run is None:
                # NB: the step that is due now is left unplanned until time moves on: a request that arrives at this
                # very moment (a closed loop without think time) still joins it.
                if self._boundary >= until_seconds:
                    break
                self._plan()
                if self._run is None:
                    break
            if self._run.end_of(self._run.steps) > until_seconds:
                break
            self._complete(self._run)
        self._now = max(self._now, until_seconds)

    def report(self) -> None:
        """Tell the observer about the steps that are done but not reported yet (`advance` reports whole runs only)."""
        if self._run is not None and not self._run.prompts:
            self._tell(self._run, self._run.steps_until(self._now))

    def abort(self, sequence: Sequence) -> None:
        """Drop a request: at once if it waits, else at the end of the step now running (as engines do)."""
        if sequence.finished_seconds is not None or sequence.aborted:
            return
        sequence.aborted = True
        sequence.finish_reason = "abort"
        if sequence in self._waiting:
            self._waiting.remove(sequence)
            sequence.finished_seconds = self._now
            if self._observer:
                self._observer.finished(sequence)
            return
        if sequence.first_token_seconds is None:
            return  # its prompt is being computed: it leaves when that step is complete
        self._cut(self._now)
        entry = next(index for index, item in enumerate(self._decoding) if item[2] is sequence)
        finish_step = self._steps_done + (self._run.steps if self._run else 0)
        self._decoding[entry] = (finish_step, self._decoding[entry][1], sequence)
        heapq.heapify(self._decoding)

    def drop_all(self) -> list[Sequence]:
        """Forget every unfinished request, as a killed process does, and return them (oldest first)."""
        lost = [item[2] for item in self._decoding] + (self._run.prompts if self._run else []) + list(self._waiting)
        self._waiting.clear()
        self._decoding.clear()
        self._run = None
        self._context_tokens = self._reserved_tokens = 0
        return sorted(lost, key=lambda sequence: sequence.arrival_seconds)

    # -- steps ------------------------------------------------------------------------------------------------------

    def _admissible(self, sequence: Sequence, batch: int, prefill_tokens: int) -> bool:
        """Whether `sequence` fits into a step with `batch` sequences and `prefill_tokens` already in it."""
        if batch >= self.model.max_batch:
            return False
        reserved = self._reserved_tokens + sequence.input_tokens + sequence.output_tokens
        if self.kv_tokens is not None and reserved > self.kv_tokens:
            return False
        tokens = prefill_tokens + sequence.input_tokens - sequence.cached_tokens
        return prefill_tokens == 0 or tokens <= self.max_prefill_tokens

    def _plan(self) -> None:
        """Begin the run that is due at the boundary; leaves none when there is nothing to do."""
        prompts: list[Sequence] = []
        tokens = 0
        duration = self.model.decode_seconds(len(self._decoding), self._context_tokens)
        while self._waiting and self._admissible(self._waiting[0], len(self._decoding) + len(prompts), tokens):
            sequence = self._waiting.popleft()
            sequence.started_seconds = self._boundary
            uncached = sequence.input_tokens - sequence.cached_tokens
            tokens += uncached
            duration += self.model.prefill_seconds(uncached, sequence.cached_tokens)
            self._reserved_tokens += sequence.input_tokens + sequence.output_tokens
            prompts.append(sequence)
        growth = self.model.context_seconds(len(self._decoding)) * len(self._decoding)
        if prompts:
            self._run = _Run(self._boundary, 1, duration, growth, prompts)
        elif self._decoding:
            self._run = _Run(self._boundary, self._decoding[0][0] - self._steps_done, duration, growth)

    def _cut(self, seconds: float) -> None:
        """End the run with the step during (or at the end of) which `seconds` falls."""
        run = self._run
        if run is None:
            return
        done = run.steps_until(seconds)
        ended = done > 0 and run.end_of(done) == seconds
        run.steps = min(run.steps, done if ended else done + 1)

    def _tell(self, run: _Run, steps: int) -> None:
        if self._observer and steps > run.told and self._decoding:
            first = run.first + run.told * run.growth
            self._observer.decoded(steps - run.told, len(self._decoding), first, run.growth)
        run.told = max(run.told, steps)

    def _complete(self, run: _Run) -> None:
        """Book a whole run: decoded tokens, first tokens, finished sequences."""
        self._tell(run, run.steps)
        self._run = None
        self._boundary = run.end_of(run.steps)
        self._steps_done += run.steps
        self._context_tokens += run.steps * len(self._decoding)
        for sequence in run.prompts:
            sequence.first_token_seconds = self._boundary
            # NB: an aborted prompt leaves with the step that computed it.
            remaining = 0 if sequence.aborted else sequence.output_tokens - 1
            sequence._joined_step = self._steps_done
            self._joined += 1
            heapq.heappush(self._decoding, (self._steps_done + remaining, self._joined, sequence))
            self._context_tokens += sequence.input_tokens + 1
            if self._observer and not sequence.aborted:
                self._observer.prefilled(sequence)
        while self._decoding and self._decoding[0][0] <= self._steps_done:
            self._finish(heapq.heappop(self._decoding)[2])

    def _finish(self, sequence: Sequence) -> None:
        sequence.finished_seconds = self._boundary
        sequence.generated_tokens = 1 + self._steps_done - sequence._joined_step
        self._reserved_tokens -= sequence.input_tokens + sequence.output_tokens
        self._context_tokens -= sequence.input_tokens + sequence.generated_tokens
        if self._observer:
            self._observer.finished(sequence)
