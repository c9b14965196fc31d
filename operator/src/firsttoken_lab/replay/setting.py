"""Setting of a replay, made from a resource: its size, its replicas, and the stage on which every policy plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firsttoken_lab.replay.play import Stage
from firsttoken_lab.replay.replicas import ColdStart
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import scaling_policy, sizing_request
from firsttoken_operator.api.gpu_pool import GPUPool, Location
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.schedule import Schedule, schedule_of
from firsttoken_operator.domain import ScalingMode, ScalingPolicy, Sized
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.optimize import size
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation.subject import Subject, subject_of


@dataclass(frozen=True, slots=True)
class Setting:
    """One resource, sized, and the configuration that its replicas run."""

    request: SizingRequest
    sized: Sized
    policy: ScalingPolicy
    subject: Subject
    peak_requests_per_second: float
    """The declared peak."""
    concurrency_per_replica: float
    """Requests in one replica at the largest rate inside the SLA."""
    longest_tokens: int
    """Input and output of the longest request that a replica takes: the context window, or all of its KV cache."""
    schedule: Schedule = ()
    """The peaks that are declared for windows of time."""
    on_prem: bool = False
    """True where the pool's GPUs are there anyway: a new deployment then begins with those for the peak."""

    @property
    def largest_batch(self) -> float:
        """Requests of the declared lengths that run in one replica at most."""
        lengths, kv_tokens = self.subject.lengths, self.subject.settings.kv_cache_tokens
        most = float(self.subject.step.max_batch)
        return most if kv_tokens is None else min(most, kv_tokens / (lengths.input_tokens + lengths.output_tokens))

    def stage(self, slots: int, cold_start_seconds: float, failures_per_day: float, seed: int) -> Stage:
        """The stage of a fleet of up to `slots` replicas at one time."""
        return Stage(
            step=self.subject.step,
            settings=replace(self.subject.settings, replicas=slots, seed=seed),
            cold_start=ColdStart(cold_start_seconds),
            ttft_limit=self.sized.sla.time_to_first_token,
            failures_per_day=failures_per_day,
            seed=seed,
        )


def setting_of(
    deployment: InferenceDeployment,
    pools: Mapping[str, GPUPool],
    benchmarks: tuple[BenchmarkProfile, ...],
    standby: int = 0,
) -> Setting | str:
    """Size a resource as the operator does, or say why it has no size. Raises `InvalidInput` as `size` does.

    The replayed policy is always active: what a paused resource would do is nothing. `standby`: replicas that it keeps
    started and asleep.
    """
    request = sizing_request(deployment, pools, benchmarks)
    sizing = size(replace(request, fewest_replicas=1), pools_apart=False)
    if not sizing.feasible or sizing.table is None or sizing.configuration is None:
        return sizing.reason
    subject = subject_of(request, sizing.configuration, sizing.batching)
    if isinstance(subject, str):
        return subject
    peak, average, most = sizing.replicas, sizing.replicas_for_average, sizing.careful_replicas
    sized = Sized(sizing.configuration, sizing.table, request.sla, peak, average, most, sizing.careful_share)
    pool = pools.get(deployment.spec.capacity.pool or "")
    policy = scaling_policy(deployment, pool)
    model = request.architecture or resolve_model(request.model)
    kv_tokens = subject.settings.kv_cache_tokens
    return Setting(
        request=request,
        sized=sized,
        policy=replace(policy, mode=ScalingMode.ACTIVE, standby=standby),
        subject=subject,
        peak_requests_per_second=sizing.peak_requests_per_second,
        concurrency_per_replica=sizing.concurrency_per_replica,
        longest_tokens=min(model.max_context_tokens, model.max_context_tokens if kv_tokens is None else kv_tokens),
        schedule=schedule_of(deployment),
        on_prem=pool is not None and pool.spec.location is Location.ON_PREM,
    )
