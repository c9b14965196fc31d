"""Resources that the rig declares: what each asks, and the load that nearly fills one replica of it.

The uniform fleet asks the question of the README's benchmark over and over. The mixed one has four models in three
pools, and a tenth of its resources is broken in four ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_sizing import size

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "call-center.yaml"
GPU = "H100-SXM-80GB"
FILLED = 0.96
"""Share of what one replica carries that is its load: one replica is enough, and three times the load needs three."""
PEAK_REPLICAS = 14
"""Replicas that the declared peak fills: more than the largest step asks for."""
POOLS = ("chat", "batch", "search")
POOL_GPUS = 1_000_000
"""More than all resources can take: a pool that is short is another benchmark."""
NAMESPACES = 20
BROKEN_EVERY = 10


class Fault(StrEnum):
    """Ways in which a resource of the mixed fleet is broken."""

    NO_TARGET = "its target does not exist"
    UNKNOWN_MODEL = "no catalog has its model"
    NO_METRICS = "its pods publish nothing"
    NO_SOURCE = "its source of metrics is not configured"


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """Question that many resources ask. `requests_per_second` fills one replica nearly, which takes `gpus` GPUs."""

    spec: Mapping[str, Any]
    requests_per_second: float
    gpus: int


@dataclass(frozen=True, slots=True)
class Workload:
    """One Deployment and its resource, of the same name."""

    number: int
    kind: WorkloadKind
    fault: Fault | None = None
    pool: str = ""

    @property
    def name(self) -> str:
        """Name, alone in its cluster."""
        return f"w-{self.number:05d}"

    @property
    def namespace(self) -> str:
        """Namespace, one of `NAMESPACES`."""
        return f"team-{self.number % NAMESPACES:02d}"


UNIFORM = ({"model": "meta-llama/Meta-Llama-3-8B-Instruct", "precision": "FP8", "tokens": (2000, 200), "ttft": 300},)
MIXED = (
    *UNIFORM,
    {"model": "meta-llama/Meta-Llama-3-8B-Instruct", "precision": "BF16", "tokens": (500, 100), "ttft": 300},
    {"model": "mistralai/Mistral-7B-Instruct-v0.1", "precision": "FP8", "tokens": (1000, 300), "ttft": 400},
    {"model": "meta-llama/Meta-Llama-3-70B-Instruct", "precision": "FP8", "tokens": (1000, 200), "ttft": 1500},
)


def fleet(count: int, arrivals: str, *, mixed: bool) -> list[Workload]:
    """So many workloads; those of the mixed fleet take turns, every tenth is broken and a third is in no pool."""
    questions = MIXED if mixed else UNIFORM
    kinds = [_kind(number, arrivals, mixed=mixed) for number in range(len(questions))]
    return [_workload(number, kinds[number % len(kinds)], mixed=mixed) for number in range(count)]


def _workload(number: int, kind: WorkloadKind, *, mixed: bool) -> Workload:
    if not mixed:
        return Workload(number, kind)
    faults = tuple(Fault)
    fault = faults[number // BROKEN_EVERY % len(faults)] if number % BROKEN_EVERY == BROKEN_EVERY - 1 else None
    places = (*POOLS, "")
    return Workload(number, kind, fault, places[number // len(MIXED) % len(places)])


@cache
def _kind(number: int, arrivals: str, *, mixed: bool) -> WorkloadKind:
    """WorkloadKind of one question, with the load that its own sizing says."""
    asked = (MIXED if mixed else UNIFORM)[number]
    spec: dict[str, Any] = {
        "model": {"name": asked["model"], "precision": asked["precision"]},
        "sla": {"timeToFirstToken": {"milliseconds": asked["ttft"], "percentile": "P95"}},
        "hardware": {"gpus": [GPU]},
        "sizing": {"arrivals": arrivals},
    }
    # NB: what a replica carries does not depend on the peak, which is declared from it.
    carried, gpus = _carried(spec | {"traffic": _traffic(asked["tokens"], 1.0)})
    return WorkloadKind(spec | {"traffic": _traffic(asked["tokens"], PEAK_REPLICAS * carried)}, FILLED * carried, gpus)


def _traffic(tokens: Any, peak: float) -> dict[str, Any]:
    return {"inputTokens": tokens[0], "outputTokens": tokens[1], "peakRequestsPerSecond": f"{peak:.2f}"}


def _carried(spec: dict[str, Any]) -> tuple[float, int]:
    """Requests a second of one replica inside the SLA, and its GPUs."""
    asking = spec | {"targetRef": {"name": "asked"}}
    document = {"apiVersion": API_VERSION, "kind": "InferenceDeployment", "metadata": {"name": "asked"}, "spec": asking}
    asked = sizing_request(InferenceDeployment.model_validate(document), {}, load_documents(EXAMPLE).benchmarks)
    answer = size(asked)
    if answer.configuration is None or not answer.feasible:
        raise ValueError(f"{spec['model']['name']}: {answer.reason}")
    return answer.requests_per_second_per_replica, answer.configuration.gpus_per_replica
