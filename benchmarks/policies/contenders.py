"""The contenders: every policy by name, its tuning parameter, and the values of which one is chosen in hindsight.

Ours has none: it is the shipped default, and can be asked for more than the SLA does. A peer's is the one that its
users set; its other settings are those of the replay's registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from firsttoken_lab.replay import causal, clairvoyant
from firsttoken_lab.replay.policies.dynamo import Dynamo, planner_command
from firsttoken_lab.replay.policies.hpa import Hpa, KedaQueue
from firsttoken_lab.replay.policies.knative import Knative
from firsttoken_lab.replay.policies.llm_d import LlmD
from firsttoken_lab.replay.policies.ours import Ours
from firsttoken_lab.replay.policies.registry import POLICIES, Context, bounds_of, engine_of
from firsttoken_lab.replay.policies.view import Policy, Unavailable
from firsttoken_operator.domain import Sized
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from firsttoken_sizing.workload import Workload
from policies.cells import TARGET_PERCENT
from policies.fingerprint import CAUSAL, OURS

CLAIRVOYANT = clairvoyant.NAME
assert causal.NAME == CAUSAL, "the fingerprint of the bound's figures is found by its name"
STATIC_PEAK, STATIC_P95 = "static-peak", "static-p95"
DYNAMO = "dynamo"


@dataclass(frozen=True, slots=True)
class TuningParameter:
    """Setting that a peer's users tune, and the values that are tried."""

    what: str
    values: tuple[float, ...]
    quick: tuple[float, ...]
    """Two of them."""


TUNING_PARAMETERS: Mapping[str, TuningParameter] = MappingProxyType(
    {
        "hpa": TuningParameter(
            "requests a pod, of those at the rated load", (0.3, 0.4, 0.55, 0.7, 0.85, 1.0), (0.55, 0.7)
        ),
        "keda": TuningParameter("waiting requests a replica", (0.5, 1.0, 2.0, 5.0, 10.0), (1.0, 5.0)),
        "knative": TuningParameter("target utilization", (0.25, 0.35, 0.5, 0.6, 0.75), (0.5, 0.6)),
        "llm-d": TuningParameter("TTFT objective, of the SLA's limit", (0.35, 0.5, 0.75, 1.0, 1.5), (1.0, 1.5)),
        DYNAMO: TuningParameter(
            "ITL limit, from that of an idle replica (0) to that at the rated load (1)",
            (0.08, 0.15, 0.3, 0.5, 0.75, 1.0),
            (0.3, 0.75),
        ),
    }
)
PEERS = tuple(TUNING_PARAMETERS)
REFERENCES = (STATIC_PEAK, STATIC_P95, CAUSAL, CLAIRVOYANT)
ASKED = (OURS, CAUSAL, CLAIRVOYANT)
"""Those who can be asked for an attainment; a peer is tuned until it has it."""
NAMES = (OURS, *PEERS, *REFERENCES)


def missing() -> dict[str, str]:
    """The policies that cannot play here, and why."""
    try:
        planner_command()
    except Unavailable as why:
        return {DYNAMO: str(why)}
    return {}


def contender(name: str, tuning: float | None, context: Context, asked_percent: float = TARGET_PERCENT) -> Policy:
    """A policy, made anew. Raises KeyError for a name that is none, or for one that knows the traffic."""
    if name == OURS and asked_percent != TARGET_PERCENT:
        setting = context.setting
        return Ours(
            setting.sized,
            setting.policy,
            calendar=context.calendar,
            on_prem=setting.on_prem,
            config=asking(asked_percent),
        )
    return POLICIES[name](context) if tuning is None else _PEERS[name](tuning, context)


def asking(percent: float) -> EstimatorConfig:
    """Constants of our law with which it aims at the misses that this attainment allows, as it does for the SLA's."""
    share = DEFAULT.error_budget.set_point_share * (100 - percent) / (100 - TARGET_PERCENT)
    return replace(DEFAULT, error_budget=replace(DEFAULT.error_budget, set_point_share=share))


def _hpa(tuning: float, context: Context) -> Policy:
    return Hpa(tuning * context.setting.concurrency_per_replica, *bounds_of(context))


def _keda(tuning: float, context: Context) -> Policy:
    return KedaQueue(tuning, *bounds_of(context))


def _knative(tuning: float, context: Context) -> Policy:
    return Knative(tuning * context.setting.concurrency_per_replica, *bounds_of(context))


def _llm_d(tuning: float, context: Context) -> Policy:
    return LlmD(tuning * _ttft_milliseconds(context) / 1000, None, *bounds_of(context))


def _dynamo(tuning: float, context: Context) -> Policy:
    # NB: not tuned by its TTFT limit: it knows of no queue, so any limit above a bare prefill gives the same fleet.
    table = context.setting.sized.table
    idle, rated = (table.at(rate).itl.mean for rate in (0.0, table.capacity_requests_per_second))
    assert idle is not None, "the table of a Poisson sizing has every mean"
    assert rated is not None, "the table of a Poisson sizing has every mean"
    itl = idle + tuning * (rated - idle)
    return Dynamo(engine_of(context), _ttft_milliseconds(context), itl, *bounds_of(context))


_PEERS: Mapping[str, Callable[[float, Context], Policy]] = MappingProxyType(
    {"hpa": _hpa, "keda": _keda, "knative": _knative, "llm-d": _llm_d, DYNAMO: _dynamo}
)


def _ttft_milliseconds(context: Context) -> float:
    limit = context.setting.sized.sla.time_to_first_token
    assert limit is not None, "every scenario is judged by its TTFT"
    return limit.milliseconds


def misjudged(sized: Sized, workload: Workload, error_percent: int) -> Sized:
    """The size that a policy is given where a replica's capacity is taken for so much more than it is.

    Latencies are assumed at rates that are as much higher, so a table with 30 % too much says of 1.3 requests a second
    what is true of 1. Declared sizes follow.
    """
    if not error_percent:
        return sized
    factor, table = 1 + error_percent / 100, sized.table
    alone = table.capacity_alone_requests_per_second
    assumed = replace(
        table,
        rates=table.rates * factor,
        capacity_requests_per_second=table.capacity_requests_per_second * factor,
        saturation_requests_per_second=table.saturation_requests_per_second * factor,
        capacity_alone_requests_per_second=None if alone is None else alone * factor,
    )
    average, peak = workload.average_requests_per_second, workload.peak_requests_per_second
    assert peak is not None, "every scenario declares a peak"
    return replace(
        sized,
        table=assumed,
        replicas_for_declared_peak=max(1, assumed.replicas_for(peak)),
        replicas_for_declared_average=None if average is None else max(1, assumed.replicas_for(average)),
    )
