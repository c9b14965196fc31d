"""Every causal policy by its name on the command line: from what is known before the replay to a policy.

A policy that stands for another project's program raises `Unavailable` where that is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firsttoken_lab.replay.calendar import Calendar
from firsttoken_lab.replay.policies.dynamo import Dynamo, Engine
from firsttoken_lab.replay.policies.hpa import Hpa, KedaQueue
from firsttoken_lab.replay.policies.knative import Knative
from firsttoken_lab.replay.policies.llm_d import LlmD
from firsttoken_lab.replay.policies.ours import Ours
from firsttoken_lab.replay.policies.schedule import Static
from firsttoken_lab.replay.policies.view import Policy, Unavailable
from firsttoken_lab.replay.setting import Setting

KEDA_WAITING_PER_REPLICA = 5.0
"""`threshold` of KEDA in the examples of vLLM for `vllm:num_requests_waiting`."""
KNATIVE_TARGET_UTILIZATION = 0.7
"""`container-concurrency-target-percentage` of Knative."""


@dataclass(frozen=True, slots=True)
class Context:
    """Facts known before a replay. The traffic's own figures are for references and for tuning in hindsight."""

    setting: Setting
    mean_input_tokens: float
    """Mean over the traffic."""
    mean_output_tokens: float
    initial: int
    """Replicas that every policy without a size of its own begins with."""
    minimum: int
    """Replicas that every policy keeps at least: `minReplicas`, but 1 where that is 0."""
    maximum: int
    """Replicas that no policy may exceed: the upper bound of ours, in the window with the largest declared peak."""
    static_peak: int
    """Replicas for the highest load of a minute."""
    static_p95: int
    """Replicas for the 95th percentile of the loads of all minutes."""
    calendar: Calendar
    """Calendar of the traffic: when it happens, and what the resource declares for then."""


Factory = Callable[[Context], Policy]


def bounds_of(context: Context) -> tuple[int, int, int]:
    """Replicas to begin with, the most and the fewest: what every policy of others is given behind its own tuning."""
    return context.initial, context.maximum, context.minimum


def _latency_limits(context: Context) -> tuple[float, float | None]:
    """TTFT and ITL, milliseconds, for a policy that scales on the first and can do without the other."""
    sla = context.setting.sized.sla
    if sla.time_to_first_token is None:
        raise Unavailable("it scales on the time to first token, and this resource has no limit of it")
    itl = sla.inter_token_latency
    return sla.time_to_first_token.milliseconds, itl.milliseconds if itl else None


def _llm_d(context: Context) -> Policy:
    ttft, itl = _latency_limits(context)
    return LlmD(ttft / 1000, None if itl is None else itl / 1000, *bounds_of(context))


def _dynamo(context: Context) -> Policy:
    ttft, itl = _latency_limits(context)
    return Dynamo(engine_of(context), ttft, itl, *bounds_of(context))


def engine_of(context: Context) -> Engine:
    """The engine as Dynamo's planner wants it described."""
    subject = context.setting.subject
    return Engine(
        subject.step,
        subject.settings.scheduler.tokens_per_step,
        subject.settings.kv_cache_tokens,
        context.mean_input_tokens,
        context.mean_output_tokens,
        subject.lengths.cached_input_percent / 100,
    )


POLICIES: dict[str, Factory] = {
    "firsttoken": lambda context: Ours(
        context.setting.sized, context.setting.policy, calendar=context.calendar, on_prem=context.setting.on_prem
    ),
    "hpa": lambda context: Hpa(context.setting.concurrency_per_replica, *bounds_of(context)),
    "keda": lambda context: KedaQueue(KEDA_WAITING_PER_REPLICA, *bounds_of(context)),
    "knative": lambda context: Knative(
        KNATIVE_TARGET_UTILIZATION * context.setting.concurrency_per_replica, *bounds_of(context)
    ),
    "llm-d": _llm_d,
    "dynamo": _dynamo,
    "static-peak": lambda context: Static("static-peak", context.static_peak),
    "static-p95": lambda context: Static("static-p95", context.static_p95),
}
