"""One replica whose requests arrive while it runs: the event kernel, driven from outside.

Why it exists: an emulated engine does not know its requests beforehand. The driver of a replica says what time it is
(`advance`) and which requests come (`submit`) or go (`abort`); an `Observer` is told what happened. The scheduling is
the kernel's, so the same arrivals get the same times as in `simulate`.

NB: always plain Python, on objects in place of arrays: a call into compiled code takes longer than an event does here.
"""

from __future__ import annotations

import heapq
import math
import sys
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

from firsttoken_sizing.simulation import kernel
from firsttoken_sizing.simulation.fleet import Settings, check, coefficients, rules
from firsttoken_sizing.simulation.kernel import NONE, STATIC
from firsttoken_sizing.simulation.online_requests import Observer, Request, RequestTooLarge
from firsttoken_sizing.step.model import StepModel

_DEFAULT = Settings()


class OnlineReplica:
    """A replica. Call `advance` and `submit` with times that never go back.

    A request that arrives exactly at a step boundary joins the step that begins there.
    """

    def __init__(
        self,
        step: StepModel,
        settings: Settings = _DEFAULT,
        *,
        observer: Observer | None = None,
        start_seconds: float = 0.0,
    ) -> None:
        """Make an idle replica. Of `settings` those of one replica count. Raises `InvalidInput` as `Fleet` does."""
        check(step, settings)
        self.settings = settings
        self.observer = observer
        # NB: lists and plain objects, which Python reads several times as fast as arrays and named tuples. What `Fleet`
        # counts in a window is not asked for here.
        self._rules: Any = SimpleNamespace(**rules(step, replace(settings, count_from_s=math.inf))._asdict())
        self._step: Any = SimpleNamespace(**coefficients(step)._asdict())
        self._step.batch, self._step.context = self._step.batch.tolist(), self._step.context.tolist()
        self._replica = kernel.Replica()
        self._work: dict[int, Request] = {}
        self._numbers = count()
        self._keys: Any = [0.0] * step.max_batch
        self._items: Any = [0] * step.max_batch
        self._fresh: Any = [0] * step.max_batch
        self._coming: list[tuple[float, int, bool, Request]] = []
        """A heap of first and last tokens that are still in a pipeline or a static batch: when they are out, an order
        for the same time, whether it is the last."""
        self._order = count()
        self._told = 0
        """Steps of the block that the observer knows of."""
        self._now = start_seconds
        self.in_flight = 0
        """Requests that arrived and are not done."""

    # -- what is going on -------------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Requests that hold a slot: their prompt is being computed or they decode."""
        replica = self._replica
        return replica.running + replica.fresh + (replica.partial != NONE)

    @property
    def waiting(self) -> int:
        """Requests that hold no slot."""
        return self._replica.outstanding - self.running

    @property
    def preemptions(self) -> int:
        """Number of times that the KV cache of a request was taken away, and its tokens computed again."""
        return self._replica.preemptions

    @property
    def kv_used_tokens(self) -> int:
        """Tokens in the KV cache now (reserved space that is not written yet does not count)."""
        replica, work = self._replica, self._work
        fresh = (work[number] for number in self._fresh[: replica.fresh])
        if self._rules.batching == STATIC:
            return sum(request.input + self.tokens_generated(request) for request in fresh)
        tokens = replica.context + replica.running * self._steps_done() + sum(item.input + item.made for item in fresh)
        return tokens + (work[replica.partial].cached + replica.partial_done if replica.partial != NONE else 0)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0..1; 0 where its size is not known."""
        capacity = self.settings.kv_cache_tokens
        return self.kv_used_tokens / capacity if capacity else 0.0

    def tokens_generated(self, request: Request) -> int:
        """Output tokens that `request` has got by now.

        NB: behind a pipeline the first and the last are on time, those between as early as they leave its first stage.
        """
        if request.is_done:
            return request.output
        if not 0 < request.first_token <= self._now:
            return 0
        if request.number not in self._work:
            return request.output - 1
        if self._rules.batching == STATIC:
            return 1 + self._steps_since(request.first_token, request.output - 1)
        if not request.last_step:
            return request.made
        return request.output - (request.last_step - self._replica.steps_done - self._steps_done())

    def next_event_seconds(self) -> float | None:
        """Earliest time of the next token; None when idle. NB: begins the step that is due at this time."""
        self._begin_due()
        replica = self._replica
        event = replica.ends
        if replica.steps > 1:
            event = replica.began + kernel.series_seconds(replica.first_step, replica.growth, self._steps_done() + 1)
        elif self._rules.batching == STATIC and replica.fresh:
            first = self._work[self._fresh[0]].first_token
            if first <= self._now:
                steps = self._steps_since(first, sys.maxsize) + 1
                event = min(event, first + kernel.series_seconds(replica.first_step, replica.growth, steps))
        if self._coming:
            event = min(event, self._coming[0][0])
        return event if event < math.inf else None

    # -- what may be done -------------------------------------------------------------------------------------------

    def submit(
        self,
        now_seconds: float,
        input_tokens: int,
        output_tokens: int,
        *,
        cached_tokens: int = 0,
        finish_reason: str = "length",
    ) -> Request:
        """Take a request at its arrival time (one handed over late joins at the present time; its wait counts).

        Raises:
            RequestTooLarge: input + output exceed the whole KV cache.

        """
        if input_tokens + output_tokens > (capacity := self._rules.kv_tokens):
            raise RequestTooLarge(
                f"{input_tokens} input + {output_tokens} output tokens exceed the KV cache of {capacity} tokens"
            )
        self.advance(now_seconds)
        number = next(self._numbers)
        uncached = max(1, input_tokens - cached_tokens)
        request = Request(
            input_tokens, uncached, output_tokens, arrival=now_seconds, number=number, finish_reason=finish_reason
        )
        self._work[number] = request
        self._replica.opens = self._now
        self.in_flight += 1
        kernel.enqueue(self._rules, self._work, self._replica, number)
        return request

    def advance(self, until_seconds: float) -> None:
        """Let time pass up to and including `until_seconds`."""
        replica = self._replica
        while replica.ends <= until_seconds and replica.ends < math.inf:
            if replica.steps > 0:
                if self._coming:
                    self._deliver(replica.ends)
                self._end()
            if replica.ends == until_seconds:
                # NB: the step that is due now is left unplanned until time moves on: a request that arrives at this
                # very moment (a closed loop without think time) still joins it.
                break
            self._begin()
        if self._coming:
            self._deliver(until_seconds)
        if until_seconds > self._now:
            self._now = until_seconds

    def report(self) -> None:
        """Tell the observer about the steps that are done but not reported yet (`advance` reports whole blocks)."""
        self._tell(self._steps_done())

    def abort(self, request: Request) -> None:
        """Drop a request: at once if it waits, else at the end of the step that runs or is due now (as engines do).

        One in a static batch keeps its slot to the end of it.
        """
        if request.is_done or request.is_aborted:
            return
        request.is_aborted = True
        request.finish_reason = "abort"
        self._begin_due()
        replica, number = self._replica, request.number
        if request.last_step:
            kernel.stop_decoding(self._rules, self._work, replica, self._keys, self._items, number, self._now)
        elif number == replica.partial or number in self._fresh[: replica.fresh]:
            if self._rules.batching != STATIC:
                kernel.stop_prompt(self._rules, self._work, replica, self._fresh, number)
        elif number in self._work:
            if number == replica.head and self._rules.batching != STATIC:
                kernel.cut_now(replica, self._now)  # the next one may have room where this one had none
            kernel.unqueue(self._work, replica, number)
            del self._work[number]
            request.output, request.finish = request.made, self._now
            self._out(request, True)

    def drop_all(self) -> list[Request]:
        """Forget every unfinished request, as a killed process does, and return them (oldest first)."""
        known = {**self._work, **{request.number: request for *_, request in self._coming}}
        self._replica = kernel.Replica()
        self._work.clear()
        self._coming.clear()
        self.in_flight = 0
        return sorted((item for item in known.values() if not item.is_done), key=lambda item: item.arrival)

    # -- blocks -----------------------------------------------------------------------------------------------------

    def _begin_due(self) -> None:
        """Begin the step that is due at the present time."""
        self.advance(self._now)
        if self._replica.steps == 0 and self._replica.ends < math.inf:
            self._begin()

    def _begin(self) -> None:
        """Plan the block that is due."""
        replica, work = self._replica, self._work
        self._told = 0
        if self._rules.batching == STATIC:
            kernel.begin_static_batch(self._step, self._rules, work, replica, self._fresh)
            for number in self._fresh[: replica.fresh]:
                self._expect(work[number], work[number].first_token, False)
                self._expect(work[number], work[number].finish, True)
            return
        kernel.begin_block(self._step, self._rules, work, replica, self._keys, self._items, self._fresh)

    def _end(self) -> None:
        """Book the block that ends now: decoded tokens, first tokens, finished requests. The next one is due then."""
        replica, work = self._replica, self._work
        if self._rules.batching == STATIC:
            batch = self._fresh[: replica.fresh]
            kernel.end_static_batch(self._rules, work, replica, self._fresh)
            for request in map(work.pop, batch):
                if self.observer and request.output > 1 and not request.is_aborted:
                    self.observer.decoded(request.output - 1, 1, replica.first_step, replica.growth)
        else:
            self._tell(replica.steps)
            complete = [work[number] for number in self._fresh[: replica.fresh]]
            kernel.end_block(self._rules, work, replica, self._keys, self._items, self._fresh)
            for request in complete:
                if request.made:
                    if self.observer and not request.is_aborted:
                        self.observer.decoded(1, 1, replica.ends - request.preempted, 0.0)
                elif request.delay:
                    self._expect(request, request.first_token, False)
                else:
                    self._out(request, False)
            while replica.running > 0 and self._keys[0] <= replica.steps_done:
                request = work.pop(kernel.finish_next(work, replica, self._keys, self._items))
                if request.delay:
                    self._expect(request, request.finish, True)
                else:
                    self._out(request, True)
        replica.steps = 0

    def _steps_done(self) -> int:
        """Steps of the block that have ended by now; of one with prompts none before it ends."""
        replica = self._replica
        return self._steps_since(replica.began, replica.steps) if replica.steps > 1 else 0

    def _steps_since(self, began_seconds: float, most: int) -> int:
        """Count the decode steps, of `most`, that have ended by now, where the first began at `began_seconds`."""
        replica = self._replica
        steps = kernel.steps_begun(replica.first_step, replica.growth, most, self._now - began_seconds)
        ended = began_seconds + kernel.series_seconds(replica.first_step, replica.growth, steps)
        return steps if ended <= self._now else steps - 1

    # -- what becomes of requests -----------------------------------------------------------------------------------

    def _expect(self, request: Request, at_seconds: float, is_last: bool) -> None:
        heapq.heappush(self._coming, (at_seconds, next(self._order), is_last, request))

    def _deliver(self, until_seconds: float) -> None:
        while self._coming and self._coming[0][0] <= until_seconds:
            *_, is_last, request = heapq.heappop(self._coming)
            self._out(request, is_last)

    def _out(self, request: Request, is_last: bool) -> None:
        """The first token of a request is out, or its last one."""
        if is_last:
            request.is_done = True
            self.in_flight -= 1
            if self.observer:
                self.observer.finished(request)
        elif self.observer and not request.is_aborted:
            self.observer.prefilled(request)

    def _tell(self, steps: int) -> None:
        """Tell the observer about the first `steps` of the block."""
        replica, told = self._replica, self._told
        if self.observer and steps > told and replica.running:
            first, growth = replica.first_step + told * replica.growth, replica.growth
            if replica.present > replica.running:
                first, growth = replica.ends - replica.began, 0.0
            self.observer.decoded(steps - told, replica.running, first, growth)
        self._told = max(told, steps)
