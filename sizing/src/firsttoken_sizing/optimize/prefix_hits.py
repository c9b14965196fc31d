"""Prompts that a candidate has in its cache, where the traffic declares how many beginnings of them are in use.

The share of hits, the replicas, and the room that running requests leave in the cache depend on each other: so the
candidate is evaluated with all hits first, then with those that its own answer leaves, until they no longer change.
"""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_sizing.optimize.evaluate import bound_of, evaluate
from firsttoken_sizing.optimize.evaluation import CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.plan import plan
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.lengths import lengths_of
from firsttoken_sizing.performance.prefix_cache import hit_share
from firsttoken_sizing.workload import Routing, Workload

_MOST_PASSES = 6
_CLOSE = 0.005
"""Shares of hits that are this near are one: less than a percent of the prompt."""


def with_hits(question: Question, bound: CandidateBound) -> tuple[Question, CandidateBound]:
    """The question and the candidate with the share of prompts that it has in its cache.

    As they are where the traffic does not say what is in use: then all that can be cached is. Where the candidate
    breaks the SLA it is with the hits that it broke it with.
    """
    workload, asked, own, share = question.request.workload, question, bound, 1.0
    if workload.prefixes_in_use is None or not workload.cached_input_percent:
        return question, bound
    for passes_left in reversed(range(_MOST_PASSES)):
        result = evaluate(asked, own)
        if isinstance(result, InfeasibleCandidate):
            break
        found = _share(workload, asked, result)
        if abs(found - share) <= _CLOSE:
            break
        # Of two shares that follow each other for ever the smaller one is kept.
        share = found if passes_left else min(found, share)
        asked = _with_share(question, share)
        again = bound_of(asked, bound.candidate)
        # Hits take no memory, so what fitted without them fits with them.
        assert isinstance(again, CandidateBound)
        own = again
    return asked, own


def _share(workload: Workload, question: Question, result: Evaluation) -> float:
    """Share of hits beside the requests that this evaluation leaves running, at as many replicas as are asked for."""
    lengths = question.lengths
    prefix_tokens = lengths.input_tokens * workload.cached_input_percent / 100
    running = (result.point.concurrency or 0.0) * lengths.running_context_tokens
    memory = result.bound.memory
    return hit_share(
        prefixes=workload.prefixes_in_use or 1,
        prefix_tokens=prefix_tokens,
        own_tokens=lengths.input_tokens - prefix_tokens + lengths.output_tokens,
        cache_tokens=(memory.kv_cache_tokens - running) / memory.groups,
        groups=memory.groups,
        replicas=_replicas(question, result),
        routing=workload.routing,
        requests_per_prefix=workload.requests_per_prefix or math.inf,
    )


def _replicas(question: Question, result: Evaluation) -> int:
    """Replicas that share the beginnings: behind a router that knows them, fewer replicas hold fewer each."""
    fewest = question.request.fewest_replicas
    if fewest is not None and question.request.workload.routing is Routing.PREFIX_AWARE:
        return fewest
    sized = plan(result, question)
    return 1 if isinstance(sized, InfeasibleCandidate) else sized.replicas


def _with_share(question: Question, share: float) -> Question:
    """The question with so much of what can be cached in the cache."""
    workload = question.request.workload
    found = replace(workload, cached_input_percent=workload.cached_input_percent * share)
    return replace(question, lengths=lengths_of(found))
