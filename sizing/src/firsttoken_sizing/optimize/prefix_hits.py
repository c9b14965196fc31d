"""Prompts that a candidate has in its cache, where the traffic declares how many beginnings of them are in use.

The share of hits, the replicas, and the room that running requests leave in the cache depend on each other. More hits
let a replica carry more: that takes more room, and fewer replicas share the beginnings, so it leaves no more hits than
before. One share therefore leaves itself, and it is searched for between one that leaves more and one that leaves less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from firsttoken_sizing.optimize.evaluate import bound_of, evaluate
from firsttoken_sizing.optimize.evaluation import CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.fleet import replicas_together, shares_arrivals
from firsttoken_sizing.optimize.plan import plan
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.lengths import lengths_of
from firsttoken_sizing.performance.prefix_cache import hit_share
from firsttoken_sizing.workload import Routing, Workload

_MOST_PASSES = 6
_CLOSE = 0.005
"""Shares of hits that are this near are one: less than a percent of the prompt."""


@dataclass(frozen=True, slots=True)
class Hits:
    """A candidate with a share of prompts in its cache.

    `question` and `bound` are those with the share; `result` is the evaluation of them, where there was one.
    """

    question: Question
    bound: CandidateBound
    share: float = 1.0
    result: Evaluation | InfeasibleCandidate | None = None

    def evaluated(self) -> Evaluation | InfeasibleCandidate:
        """The evaluation with these hits, which is made once."""
        return evaluate(self.question, self.bound) if self.result is None else self.result


def most_hits(question: Question, bound: CandidateBound) -> Hits:
    """The candidate with the most hits that it can have: no request takes room, and the fewest caches share them.

    All that can be cached where the traffic does not say what is in use, and behind a router that knows prefixes with
    any number of replicas.
    """
    request = question.request
    aims, fewest = request.workload.routing is Routing.PREFIX_AWARE, request.fewest_replicas
    if not _limited(request.workload) or (aims and fewest is None):
        return Hits(question, bound)
    return _with_share(question, bound, _share(question, bound, running=0.0, replicas=fewest or 1 if aims else 1))


def with_hits(
    question: Question, bound: CandidateBound, loses: Callable[[Hits], bool] = lambda _most: False
) -> Hits | None:
    """The candidate with the hits that it has at the load that they let it carry.

    Where it breaks the SLA it is with the hits that it broke it with. `loses` is asked with hits that it has at most:
    None where it says that they are too few.
    """
    tried = most_hits(question, bound)
    if loses(tried):
        return None
    if not _limited(question.request.workload):
        return tried
    # What is searched for is at least what leaves more than itself, and at most what that leaves; and the other way.
    fewer: Hits | None = None
    broke: Hits | None = None
    low, high = 0.0, tried.share
    for _ in range(_MOST_PASSES):
        result = tried.evaluated()
        tried = replace(tried, result=result)
        if isinstance(result, InfeasibleCandidate):
            if tried.share >= high:
                return tried
            # NB: where no load is carried, nothing takes room: that leaves the most hits, which are more than these.
            broke, low = tried, max(low, tried.share)
            if high - low <= _CLOSE:
                break
            tried = _with_share(question, bound, (low + high) / 2)
            continue
        left = _left(tried.question, result)
        if abs(left - tried.share) <= _CLOSE:
            return tried
        if left > tried.share:
            fewer, low, at_most = tried, tried.share, min(high, left)
            if at_most < high and loses(_with_share(question, bound, at_most)):
                return None
            high = at_most
        else:
            low, high = max(low, left), tried.share
        if (fewer or broke) and high - low <= _CLOSE:
            break
        tried = _with_share(question, bound, (low + high) / 2 if fewer or broke else low)
    # One replica more or less may leave no share that leaves itself: the careful one is kept.
    return fewer or broke or tried


def _limited(workload: Workload) -> bool:
    """Tell whether the traffic says what is in use, of which a cache may hold a part only."""
    return workload.prefixes_in_use is not None and workload.cached_input_percent > 0


def _left(question: Question, result: Evaluation) -> float:
    """Share of hits beside the requests that this evaluation leaves running, at as many replicas as are asked for."""
    running = (result.point.concurrency or 0.0) * question.lengths.running_context_tokens
    return _share(question, result.bound, running=running, replicas=_replicas(question, result))


def _share(question: Question, bound: CandidateBound, *, running: float, replicas: int) -> float:
    """Share of hits of so many replicas, the running requests of each of which hold so many tokens."""
    workload, memory = question.request.workload, bound.memory
    prefix_tokens = question.lengths.input_tokens * workload.cached_input_percent / 100
    return hit_share(
        prefixes=workload.prefixes_in_use or 1,
        prefix_tokens=prefix_tokens,
        own_tokens=question.lengths.input_tokens - prefix_tokens + question.lengths.output_tokens,
        cache_tokens=(memory.kv_cache_tokens - running) / memory.groups,
        groups=memory.groups,
        replicas=replicas,
        routing=workload.routing,
        requests_per_prefix=workload.requests_per_prefix or math.inf,
    )


def _replicas(question: Question, result: Evaluation) -> int:
    """Replicas that share the beginnings: behind a router that knows them, fewer replicas hold fewer each."""
    request = question.request
    aims = request.workload.routing is Routing.PREFIX_AWARE
    if aims and request.fewest_replicas is not None:
        return request.fewest_replicas
    if not aims and request.workload.requests_per_prefix is None:
        # What comes again for ever has been everywhere.
        return 1
    peak = request.workload.peak_requests_per_second
    if peak is not None and shares_arrivals(question, result):
        return replicas_together(question, result, peak)
    sized = plan(result, question)
    return 1 if isinstance(sized, InfeasibleCandidate) else sized.replicas


def _with_share(question: Question, bound: CandidateBound, share: float) -> Hits:
    """The candidate with so much of what can be cached in the cache."""
    workload = question.request.workload
    found = replace(workload, cached_input_percent=workload.cached_input_percent * share)
    asked = replace(question, lengths=lengths_of(found))
    again = bound_of(asked, bound.candidate)
    # Hits take no memory, so what fitted without them fits with them.
    assert isinstance(again, CandidateBound)
    return Hits(asked, again, share)
