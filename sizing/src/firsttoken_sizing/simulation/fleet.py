"""Replicas under a stream of requests: laid out in arrays for the event loop, and advanced as far as one likes."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from typing import Any, get_type_hints

import numpy as np

from firsttoken_sizing.engines.scheduler import KvAdmission, Scheduler
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.simulation import kernel
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Batching, Routing

_UNLIMITED = 2**62
_DRAWS = 2**40
_COUNTS = ("busy", "batch_seconds", "preemptions", "kv_peak", "reserved_peak")
"""Fields of a replica that count what it did; the others say what it is at."""
_ROUTING = {
    Routing.RANDOM: kernel.RANDOM,
    Routing.ROUND_ROBIN: kernel.ROUND_ROBIN,
    Routing.LEAST_LOADED: kernel.LEAST_LOADED,
    # NB: hits are in the lengths of the requests; which replica has which beginning is not simulated.
    Routing.PREFIX_AWARE: kernel.RANDOM,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the replicas. The batch limit is the step model's `max_batch`, for each replica."""

    batching: Batching = Batching.IN_FLIGHT
    scheduler: Scheduler = field(default_factory=Scheduler)
    """Token budget of a replica; `chunked_prefill` of it counts as `Batching.CHUNKED_PREFILL`."""
    replicas: int = 1
    routing: Routing = Routing.RANDOM
    """LeastLoaded: to the replica with the fewest requests not yet done."""
    kv_cache_tokens: int | None = None
    """Tokens that one replica holds; None is no limit."""
    kv_admission: KvAdmission = KvAdmission.RESERVED
    seed: int = 0
    """Seed of random routing."""
    count_from_s: float = 0.0
    """Start of the window in which busy time, batch and KV use are counted (not the latencies: all have theirs)."""
    count_until_s: float = math.inf


class Fleet:
    """Replicas that serve, or not yet, or no more, while requests come.

    Replicas are numbered 0 to `settings.replicas - 1`; at first none of them takes requests. One step takes
    `step.decode_seconds` of the running requests plus `step.prefill_seconds` of each prompt, or chunk, in it. A
    pipeline's further stages add to the latency of a prompt and take no time of the first stage. `requests` and
    `replicas` are the records of `kernel.WorkItem` and `kernel.Replica`; times that are 0 have not come yet.
    """

    def __init__(self, step: StepModel, requests: Requests, settings: Settings) -> None:
        """Lay everything out. Raises `InvalidInput` for what cannot be simulated."""
        check(step, settings)
        _check_longest(requests, settings)
        self.is_closed = requests.concurrency is not None
        self.requests = records(kernel.WorkItem, len(requests))
        self.requests.input = requests.input_tokens
        self.requests.uncached = requests.uncached_input_tokens
        self.requests.output = requests.output_tokens
        if not settings.routing.evens_out:
            rng = np.random.default_rng(settings.seed)
            # NB: the draw is taken modulo how many take requests, which may be fewer than all: a draw among all alone
            # would favor the first ones.
            among_all = rng.integers(settings.replicas, size=len(requests))
            self.requests.draw = among_all + settings.replicas * rng.integers(_DRAWS, size=len(requests))
        self.requests[["arrival", "pause"][self.is_closed]] = requests.arrival_s
        self.replicas = records(kernel.Replica, settings.replicas)
        self.replicas[:] = astuple(kernel.Replica())
        shape = (settings.replicas, step.max_batch)
        self._slots = kernel.Slots(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        # NB: the event loop gets plain arrays of the same records: what numba has to find out about a `recarray` at
        # every call takes longer than a tick without traffic.
        self._work, self._fleet = self.requests.view(np.ndarray), self.replicas.view(np.ndarray)
        self._used = 0
        self._clients = _new_clients(requests.arrival_s, requests.concurrency or 0)
        self._step, self._rules = coefficients(step), rules(step, settings)
        self._open = np.empty(0, np.int64)

    def open(self, replica: int, now_s: float) -> None:
        """Let a replica take requests from now on."""
        self.replicas[replica].opens = now_s
        self._open = np.union1d(self._open, [replica])
        self._used = max(self._used, replica + 1)

    def close(self, replica: int) -> None:
        """A replica takes no more requests; those that it has it answers."""
        self._open = self._open[self._open != replica]

    def fail(self, replica: int) -> int:
        """A replica dies: what it had is lost (its times stay 0). Returns how many requests that were."""
        self.close(replica)
        sent = self.requests[: self.sent]
        lost = np.flatnonzero((sent.replica == replica) & (sent.released == 0))
        # NB: both may stand there already: a step that was planned ends in the future.
        self.requests.first_token[lost] = 0
        self.requests.finish[lost] = 0
        self.requests.released[lost] = np.inf
        idle = kernel.Replica()
        for name in _COUNTS:
            setattr(idle, name, self.replicas[replica][name])
        self.replicas[replica] = astuple(idle)
        return len(lost)

    @property
    def sent(self) -> int:
        """Count the requests that were sent to a replica, or in a closed loop wait for their client."""
        return int(self._clients.sent[0])

    def advance(self, until_s: float) -> None:
        """Simulate up to `until_s`; infinite: until every request is answered."""
        # NB: imported here, because compiling needs numba and that takes longer to import than all the rest.
        from firsttoken_sizing.simulation.compiled import run

        # Replicas that were never open are idle; the loop looks at all that it gets for what ends next.
        fleet = self._fleet[: max(1, self._used)]
        run(self._step, self._rules, self._work, fleet, self._slots, self._clients, self.is_closed, self._open, until_s)


def records(kind: type, count: int) -> Any:
    """An array of records with the fields of `kernel.WorkItem` or `kernel.Replica`, all zero."""
    fields = [(name, "f8" if hint is float else "i8") for name, hint in get_type_hints(kind).items()]
    return np.zeros(count, dtype=fields).view(np.recarray)


def _new_clients(pause_s: kernel.Floats, concurrency: int) -> kernel.Clients:
    """The clients of a closed loop, each about to send its first request; 0 where arrivals are given."""
    clients = min(concurrency, len(pause_s))
    first = np.argsort(pause_s[:clients], kind="stable")  # a sorted array is a heap
    count = np.array([clients], np.int64)
    return kernel.Clients(pause_s[first].astype(np.float64), first.astype(np.int64), count, count.copy())


def coefficients(step: StepModel) -> kernel.Coefficients:
    """The step model as the kernel reads it."""
    sequences = np.arange(step.max_batch + 1.0)
    return kernel.Coefficients(
        batch=np.array(step.batch_seconds(sequences)),
        context=np.array(step.context_seconds(sequences)),
        prefill=step.per_prefill_token_seconds,
        prefill_squared=step.per_prefill_token_squared_seconds,
        further_stages=step.further_prefills,
    )


def rules(step: StepModel, settings: Settings) -> kernel.Rules:
    """The settings as the kernel reads them."""
    chunked = settings.batching is Batching.CHUNKED_PREFILL or settings.scheduler.chunked_prefill
    batching = {
        Batching.STATIC: kernel.STATIC,
        Batching.IN_FLIGHT: kernel.CHUNKED if chunked else kernel.IN_FLIGHT,
        Batching.CHUNKED_PREFILL: kernel.CHUNKED,
    }[settings.batching]
    return kernel.Rules(
        batching=batching,
        max_batch=step.max_batch,
        tokens_per_step=settings.scheduler.tokens_per_step,
        kv_tokens=_UNLIMITED if settings.kv_cache_tokens is None else settings.kv_cache_tokens,
        is_paged=settings.kv_admission is KvAdmission.PAGED and settings.batching is not Batching.STATIC,
        routing=_ROUTING[settings.routing],
        count_from=float(settings.count_from_s),
        count_until=float(settings.count_until_s),
    )


def check(step: StepModel, settings: Settings) -> None:
    """Raise `InvalidInput` for replicas that cannot be simulated."""
    if settings.replicas < 1:
        raise InvalidInput("replicas", f"{settings.replicas} is below 1", "use at least 1")
    if step.max_batch < 1:
        raise InvalidInput("step.max_batch", f"{step.max_batch} is below 1", "use at least 1")
    if not step.decode_seconds(1, 1) > 0:
        raise InvalidInput("step", "a step takes no time", "give a step model with positive coefficients")
    if settings.scheduler.tokens_per_step < 1:
        raise InvalidInput("scheduler.tokens_per_step", f"{settings.scheduler.tokens_per_step} is below 1", "use more")


def _check_longest(requests: Requests, settings: Settings) -> None:
    if settings.kv_cache_tokens is not None:
        longest = int((requests.input_tokens + requests.output_tokens).max())
        if longest > settings.kv_cache_tokens:
            raise InvalidInput(
                "kv_cache_tokens",
                f"{settings.kv_cache_tokens} hold no request of {longest} tokens",
                "shorten the requests or use a replica with more memory",
            )
