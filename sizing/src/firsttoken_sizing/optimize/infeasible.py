"""Infeasible candidates: why one serves the workload at no size, and what would help, in one sentence."""

from __future__ import annotations

import math

from firsttoken_sizing.engines.memory import Memory
from firsttoken_sizing.optimize.evaluation import Candidate, InfeasibleCandidate
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.limits import bounds
from firsttoken_sizing.profile import Point
from firsttoken_sizing.request import Infeasible
from firsttoken_sizing.workload import Sla

MEMORY_CAUSES = (Infeasible.MODEL_DOES_NOT_FIT, Infeasible.KV_CACHE_TOO_SMALL)
_BY_METRIC = {
    "TTFT": (Infeasible.SINGLE_REQUEST_TTFT, "sla.timeToFirstToken.milliseconds"),
    "ITL": (Infeasible.ITL_AT_BATCH_1, "sla.interTokenLatency.milliseconds"),
    "E2E": (Infeasible.END_TO_END_INCONSISTENT, "sla.endToEnd.milliseconds"),
}
_WITHOUT_WEIGHTS, _WITHOUT_A_REQUEST = 1e9, 1e6
"""Shortfalls of memory: a candidate that breaks a latency limit is nearer than one that does not even fit."""


def infeasible_by_memory(candidate: Candidate, memory: Memory, longest_tokens: float) -> InfeasibleCandidate | None:
    """The candidate as infeasible if its memory does not hold the model and one of the longest requests, else None."""
    key = candidate.key
    where = f"{key.gpus_per_replica} x {key.gpu}"
    if memory.kv_cache_tokens <= 0:
        missing = memory.weights_gib + memory.other_gib - memory.total_gib
        sentence = (
            f"{key.precision} weights take {memory.weights_gib:.1f} GiB a GPU on {where} of {memory.total_gib:.1f} GiB"
            " and leave no room for the KV cache; use more GPUs a replica (hardware.tensorParallel), a smaller"
            " precision or a larger GPU"
        )
        return InfeasibleCandidate(
            candidate, Infeasible.MODEL_DOES_NOT_FIT, sentence, _WITHOUT_WEIGHTS + missing, memory
        )
    if memory.max_concurrency < 1 or memory.kv_cache_tokens_per_group < longest_tokens:
        whole = memory.groups == 1
        cache = "the KV cache" if whole else f"the KV cache of each of {memory.groups} groups of attention"
        sentence = (
            f"{cache} of {where} holds {memory.kv_cache_tokens_per_group} tokens, fewer than one request of"
            f" {longest_tokens:g}; use {'' if whole else 'fewer groups (hardware.attentionDataParallel), '}more GPUs a"
            " replica (hardware.tensorParallel), a smaller precision (model.precision) or shorter lengths"
            " (traffic.inputTokens, traffic.outputTokens)"
        )
        return InfeasibleCandidate(candidate, Infeasible.KV_CACHE_TOO_SMALL, sentence, _WITHOUT_A_REQUEST, memory)
    return None


def infeasible_by_latency(candidate: Candidate, alone: Point, sla: Sla, memory: Memory) -> InfeasibleCandidate:
    """The candidate as infeasible: it breaks a limit at its lightest load, `alone`."""
    key = candidate.key
    broken = [b for b in bounds(alone, sla) if b.kept is False]
    worst = max(broken, key=lambda b: (b.least_milliseconds or 0.0) / b.limit.milliseconds)
    value = worst.least_milliseconds or 0.0
    cause, field = _BY_METRIC[worst.metric]
    is_alone = (alone.concurrency or 0.0) <= PARAMETERS.capacity.alone_concurrency
    load = "one request alone" if is_alone else f"concurrency {alone.concurrency:g}"
    sentence = (
        f"{worst.name} of {load} is {value:.1f} ms on {key.gpus_per_replica} x {key.gpu} {key.precision}, above the"
        f" limit of {worst.limit.milliseconds:g} ms, and no number of replicas changes that; raise the limit to at"
        f" least {math.ceil(value)} ms ({field}), or use a faster GPU, more GPUs a replica or a smaller"
        " model"
    )
    return InfeasibleCandidate(candidate, cause, sentence, value / worst.limit.milliseconds, memory)
