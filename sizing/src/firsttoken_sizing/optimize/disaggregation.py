"""Disaggregation: separate pools for prefill and decode, held against the best plan: one more line of the alternatives.

A comparison only: one kind of replica is what is sized and scaled. Asked where it can pay, under Poisson arrivals at a
fleet under an ITL limit; without one, prompts that stall other requests' tokens break nothing.
"""

from __future__ import annotations

from firsttoken_sizing.optimize.plan import Plan
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.disaggregated import Pool, kv_transfer_seconds, size_disaggregated
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.request import Alternative
from firsttoken_sizing.workload import Arrivals, Batching


def disaggregated(question: Question, best: Plan) -> Alternative | None:
    """The same configuration in two pools; None where it cannot pay or where a pool is a single replica anyway."""
    request, bound, key = question.request, best.evaluation.bound, best.evaluation.key
    if question.arrivals is not Arrivals.POISSON or request.sla.inter_token_latency is None or best.replicas < 2:
        return None
    if bound.candidate.batching is Batching.STATIC:
        return None
    gpu, pool = question.gpus[key.gpu], Pool(bound.step, key.gpus_per_replica)
    transfer = kv_transfer_seconds(
        question.model,
        gpu,
        input_tokens=question.lengths.input_tokens,
        tensor_parallel=key.tensor_parallel,
        gpus_per_server=request.hardware.gpus_per_server,
    )
    found = size_disaggregated(
        pool,
        question.lengths,
        best.peak_requests_per_second,
        lambda point: meets(point, request.sla) is True,
        transfer_seconds=transfer,
        scheduler=bound.scheduler,
    )
    if found is None:
        return Alternative(key, False, None, "prefill and decode apart: the SLA is met at no size")
    prefill, decode = (n * key.gpus_per_replica for n in (found.prefill_workers, found.decode_workers))
    apart = f"prefill and decode apart: {prefill} + {decode} GPUs against {best.bill.gpus}"
    verdict = (
        "no gain"
        if found.gpus >= best.bill.gpus
        else "by physics, which was not checked against measurements; measure it, and scale the two pools apart"
    )
    return Alternative(
        key, True, found.gpus, f"{apart}, KV transfer {1000 * transfer:.0f} ms; {verdict}", prefill_gpus=prefill
    )
