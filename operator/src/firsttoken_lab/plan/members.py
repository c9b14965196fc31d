"""Deployments of a plan: the pool that each is in, its size there, and the resource as `decide` reads it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from firsttoken_lab.plan.pools import PlannedPool, planned_pool, undeclared_pool
from firsttoken_lab.replay.calendar import MONDAY_EPOCH_SECONDS
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import scaling_policy, sizing_request
from firsttoken_operator.api.documents import Documents
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.schedule import DAY_SECONDS, Schedule, coming_openings, schedule_of
from firsttoken_operator.decide import judge_facts
from firsttoken_operator.domain import (
    FleetSnapshot,
    Metrics,
    Missing,
    Reason,
    ResourceSnapshot,
    Sized,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.observe.tenancy import Tenancy
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize import size
from firsttoken_sizing.optimize.places import in_places
from firsttoken_sizing.request import Sizing, SizingRequest

_NOTHING = Missing(Reason.TARGET_NOT_FOUND)
_SILENT = Metrics(
    Reason.MISSING, "", _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, ttft=None, window_seconds=60
)


@dataclass(frozen=True, slots=True)
class Member:
    """One deployment in its pool."""

    deployment: InferenceDeployment
    pool: str
    sizing: Sizing
    resource: ResourceSnapshot
    schedule: Schedule
    note: str = ""
    """Pool that it names where that is not among the pools of the plan; empty: it is in the one that it names."""

    @property
    def uid(self) -> str:
        """Namespace and name."""
        return self.resource.uid


@dataclass(frozen=True, slots=True)
class Membership:
    """All pools of a plan, and the deployments in them."""

    pools: tuple[PlannedPool, ...]
    members: tuple[Member, ...]


def membership(
    documents: Documents, pools: Mapping[str, GPUPool], benchmarks: Iterable[BenchmarkProfile], growth: float
) -> Membership:
    """Size each deployment, with its declared load times `growth`, in the pool that it is in.

    That is the pool that it names, its tenant's default pool, else the only one with a GPU that it allows; without any
    pool, that of the GPU that its size is best on. Raises `InvalidInput` where none has such a GPU, or several have.
    """
    benchmarks, tenancy = tuple(benchmarks), Tenancy(pools, documents.namespaces)
    namespaces = {d.metadata.namespace for d in documents.deployments}
    planned = {name: planned_pool(pool, tenancy, namespaces) for name, pool in pools.items()}
    members = []
    for declared in documents.deployments:
        deployment = tenancy.placed(declared)
        request = replace(_grown(sizing_request(deployment, pools, benchmarks), growth), fewest_replicas=1)
        if pools:
            name = _pool_of(deployment, request, planned)
            (placed,) = in_places(request, (planned[name].place,))
            sizing = placed.sizing
        else:
            sizing = size(request, pools_apart=False)
            name = sizing.configuration.gpu if sizing.configuration else resolve_gpu(request.hardware.gpus[0]).name
            planned.setdefault(name, undeclared_pool(name, request.hardware.gpus_per_server))
        named = declared.spec.capacity.pool
        note = f"GPUPool {named} is not there" if named is not None and named != name else ""
        members.append(_member(deployment, name, sizing, pools.get(name), growth, note))
    snapshot = FleetSnapshot(
        MONDAY_EPOCH_SECONDS, 60.0, tuple(m.resource for m in members), {n: p.snapshot for n, p in planned.items()}
    )
    judged = judge_facts(snapshot).resources
    return Membership(
        tuple(planned.values()), tuple(replace(m, resource=r) for m, r in zip(members, judged, strict=True))
    )


def _pool_of(deployment: InferenceDeployment, request: SizingRequest, pools: Mapping[str, PlannedPool]) -> str:
    named = deployment.spec.capacity.pool
    if named is not None and named in pools:
        return named
    allowed = {resolve_gpu(gpu).name for gpu in request.hardware.gpus}
    fitting = [name for name, pool in pools.items() if pool.place.gpu in allowed]
    if len(fitting) != 1:
        which = ", ".join(fitting) if fitting else "none"
        raise InvalidInput(
            f"{deployment.metadata.title} spec.capacity.pool",
            f"{'names no pool of the plan' if named is None else f'{named} is not there'}, and of those that are"
            f" {which} has one of its GPUs",
            f"name one of {', '.join(pools)}",
        )
    return fitting[0]


def _grown(request: SizingRequest, growth: float) -> SizingRequest:
    """The question with so many times the load; whole requests are rounded up."""
    load = request.workload
    average, peak, job, concurrent = (
        load.average_requests_per_second, load.peak_requests_per_second, load.offline, load.concurrent_requests
    )  # fmt: skip
    return replace(
        request,
        workload=replace(
            load,
            average_requests_per_second=None if average is None else average * growth,
            peak_requests_per_second=None if peak is None else peak * growth,
            concurrent_requests=None if concurrent is None else math.ceil(concurrent * growth),
            offline=None if job is None else replace(job, requests=math.ceil(job.requests * growth)),
        ),
    )


def _member(
    deployment: InferenceDeployment, pool: str, sizing: Sizing, declared: GPUPool | None, growth: float, note: str
) -> Member:
    windows = tuple(
        replace(window, peak_requests_per_second=window.peak_requests_per_second * growth)
        for window in schedule_of(deployment)
    )
    resource = ResourceSnapshot(
        uid=deployment.metadata.title,
        namespace=deployment.metadata.namespace,
        name=deployment.metadata.name,
        generation=deployment.metadata.generation,
        policy=scaling_policy(deployment, declared),
        sized=_sized(sizing),
        target=TargetMissing(Reason.TARGET_NOT_FOUND, "nothing runs in a plan"),
        metrics=_SILENT,
        pool=pool,
        priority=deployment.spec.capacity.priority,
        has_schedule=bool(windows),
        openings=coming_openings(windows, int(MONDAY_EPOCH_SECONDS // DAY_SECONDS)),
    )
    return Member(deployment, pool, sizing, resource, windows, note)


def _sized(sizing: Sizing) -> Sized | Unsized:
    if not sizing.feasible or sizing.table is None or sizing.configuration is None:
        return Unsized(Reason(sizing.cause.value) if sizing.cause else Reason.INVALID_SPEC, sizing.reason)
    return Sized(
        configuration=sizing.configuration,
        table=sizing.table,
        sla=sizing.request.sla,
        replicas_for_declared_peak=sizing.replicas,
        replicas_for_declared_average=sizing.replicas_for_average,
        peak_requests_per_second=sizing.peak_requests_per_second,
    )


def members_of(pool: PlannedPool, members: Sequence[Member]) -> tuple[Member, ...]:
    """Those in a pool that have a size."""
    return tuple(m for m in members if m.pool == pool.snapshot.name and isinstance(m.resource.sized, Sized))
