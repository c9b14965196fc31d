"""Disaggregation: separate pools for prefill and decode, held against the best plan: one more line of the alternatives.

Each pool has the parallelism that suits it, of those that are candidates with the GPU and the precision of the best
plan. A comparison only: one kind of replica is what is sized and scaled. Asked where it can pay, under Poisson arrivals
at a fleet under an ITL limit; without one, prompts that stall other requests' tokens break nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from firsttoken_sizing.optimize.evaluate import bound_of
from firsttoken_sizing.optimize.evaluation import CandidateBound
from firsttoken_sizing.optimize.plan import Plan
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.disaggregated import Worker, kv_transfer_seconds
from firsttoken_sizing.performance.disaggregated_search import MOST_WORKERS, Disaggregated, size_disaggregated
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.request import Alternative, SeparatePools, WorkerPool
from firsttoken_sizing.workload import Arrivals, Batching


def disaggregated(question: Question, best: Plan) -> Alternative | None:
    """Two pools in place of the best plan; None where they cannot pay or where it is a single replica anyway."""
    request, bound, key = question.request, best.evaluation.bound, best.evaluation.key
    if question.arrivals is not Arrivals.POISSON or request.sla.inter_token_latency is None or best.replicas < 2:
        return None
    if bound.candidate.batching is Batching.STATIC:
        return None
    found = size_disaggregated(
        _workers(question, bound),
        question.lengths,
        best.peak_requests_per_second,
        lambda point: meets(point, request.sla) is True,
        transfer_seconds=lambda prefill, decode: _transfer_seconds(question, bound, prefill, decode),
        fewer_than=best.bill.gpus,
    )
    if found is None:
        reason = f"prefill and decode apart: no parallelism of the two takes fewer than {best.bill.gpus} GPUs"
        # Of more GPUs there may be pools that are not looked at.
        looked_at = f" with {MOST_WORKERS} workers or fewer each" if best.bill.gpus > MOST_WORKERS else ""
        return Alternative(key, True, None, reason + looked_at)
    pools = _pools(found)
    apart = f"prefill and decode apart: {pools.prefill.gpus} + {pools.decode.gpus} GPUs against {best.bill.gpus}"
    transfer = f"KV transfer {pools.transfer_milliseconds:.0f} ms"
    doubt = "by physics, which was not checked against measurements; measure it, and scale the two pools apart"
    return Alternative(found.decode.key, True, found.gpus, f"{apart}, {transfer}; {doubt}", pools=pools)


def _workers(question: Question, best: CandidateBound) -> Iterator[Worker]:
    """The best replica as a worker, and those with other parallelism beside it."""
    yield Worker(best.candidate.key, best.step, best.scheduler)
    ours = best.candidate.key.gpu, best.candidate.key.precision, best.candidate.batching
    for candidate in question.candidates:
        if candidate == best.candidate or (candidate.key.gpu, candidate.key.precision, candidate.batching) != ours:
            continue
        bound = bound_of(question, candidate)
        if isinstance(bound, CandidateBound):
            yield Worker(candidate.key, bound.step, bound.scheduler)


def _transfer_seconds(question: Question, best: CandidateBound, prefill: Worker, decode: Worker) -> float:
    return kv_transfer_seconds(
        question.model,
        question.gpus[prefill.key.gpu],
        input_tokens=question.lengths.input_tokens,
        prefill_ways=prefill.key.attention_ways,
        decode_ways=decode.key.attention_ways,
        gpus_per_server=question.request.hardware.gpus_per_server,
        kv_width=best.memory.kv_width,
    )


def _pools(found: Disaggregated) -> SeparatePools:
    return SeparatePools(
        prefill=WorkerPool(found.prefill.key, found.prefill_workers),
        decode=WorkerPool(found.decode.key, found.decode_workers),
        transfer_milliseconds=1000 * found.transfer_seconds,
        ttft=found.point.ttft,
        itl=found.point.itl,
        end_to_end=found.point.end_to_end,
    )
