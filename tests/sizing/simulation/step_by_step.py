"""Every step of one replica, one after the other, in the plainest Python: what the event loop must agree with.

Nothing is jumped over, cut or kept in a heap. Whole and chunked prompts, reserved and paged KV cache, static batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_sizing.simulation import KvAdmission, Requests, Settings
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching

_UNLIMITED = 10**12


@dataclass(eq=False)
class Request:
    number: int
    arrival: float
    input: int
    uncached: int
    output: int
    made: int = 0
    computed: int = 0
    """Prompt tokens of the present admission."""
    admitted: float | None = None
    first_token: float = 0.0
    finish: float = 0.0

    @property
    def context(self) -> int:
        return self.input + self.made


def simulate_steps(step: StepModel, requests: Requests, settings: Settings) -> list[Request]:
    """The requests of an open loop in the order in which they came."""
    columns = (requests.arrival_s, requests.input_tokens, requests.uncached_input_tokens, requests.output_tokens)
    every = [Request(i, *(column[i].item() for column in columns)) for i in range(len(requests))]
    if settings.batching is Batching.STATIC:
        return _static(step, every, settings)
    capacity = settings.kv_cache_tokens or _UNLIMITED
    paged = settings.kv_admission is KvAdmission.PAGED
    chunked = settings.batching is Batching.CHUNKED_PREFILL
    coming, waiting = list(every), list[Request]()
    prompts, running = list[Request](), list[Request]()  # prompts: admitted, not complete
    now = 0.0
    while coming or waiting or prompts or running:
        if not (waiting or prompts or running):
            now = max(now, coming[0].arrival)
        while coming and coming[0].arrival <= now:
            waiting.append(coming.pop(0))
        while paged and _paged_tokens(running, prompts) > capacity:
            pool = prompts or running
            youngest = max(pool, key=lambda r: (r.admitted or 0.0, r.number))
            pool.remove(youngest)
            youngest.computed = 0
            waiting.insert(0, youngest)
        left = settings.scheduler.tokens_per_step - (len(running) if chunked else 0)
        seconds, complete = 0.0, list[Request]()
        while left > 0:
            if not prompts:
                if not waiting or len(running) + len(complete) >= step.max_batch:
                    break
                head, present = waiting[0], complete + prompts
                if paged:
                    tokens = _paged_tokens(running, [*present, head])
                else:
                    tokens = sum(r.input + r.output for r in [*running, *present, head])
                if tokens > capacity or (not chunked and complete and head.uncached + head.made > left):
                    break
                head.admitted = now if head.admitted is None else head.admitted
                prompts.append(waiting.pop(0))
            request = prompts[0]
            rest = request.uncached + request.made - request.computed
            part = min(rest, left) if chunked else rest
            seconds += step.prefill_seconds(float(part), request.input - request.uncached + request.computed)
            left -= part
            request.computed += part
            if part == rest:
                complete.append(prompts.pop(0))
        now += step.decode_seconds(float(len(running)), float(sum(r.context for r in running))) + seconds
        for request in running + complete:
            request.made += 1
        for request in complete:
            request.computed = 0
            request.first_token = request.first_token or now
        running += complete
        for request in [r for r in running if r.made == r.output]:
            request.finish = now
            running.remove(request)
    return every


def _paged_tokens(running: Iterable[Request], prompts: Iterable[Request]) -> int:
    """Tokens of the cache that are taken, with those that the next step writes."""
    return sum(r.context for r in running) + sum(r.input + r.made + 1 for r in prompts)


def _static(step: StepModel, every: list[Request], settings: Settings) -> list[Request]:
    capacity = settings.kv_cache_tokens or _UNLIMITED
    waiting = list(every)
    now = 0.0
    while waiting:
        now = max(now, waiting[0].arrival)
        batch: list[Request] = []
        while waiting and waiting[0].arrival <= now and len(batch) < step.max_batch:
            padded = [*batch, waiting[0]]
            if len(padded) * (max(r.input for r in padded) + max(r.output for r in padded)) > capacity:
                break
            batch.append(waiting.pop(0))
        size, longest, uncached = len(batch), max(r.input for r in batch), max(r.uncached for r in batch)
        for request in batch:
            request.admitted = now
        now += step.decode_seconds(0.0, 0.0) + size * step.prefill_seconds(float(uncached), longest - uncached)
        for made in range(1, max(r.output for r in batch) + 1):
            if made > 1:
                now += step.decode_seconds(float(size), float(size * (longest + made - 1)))
            for request in batch:
                if made == 1:
                    request.first_token = now
                if made == request.output:
                    request.finish = now
    return every
