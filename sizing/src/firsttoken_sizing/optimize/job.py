"""Mode Offline with a declared job: how many replicas finish it before its deadline, and what that takes.

The throughput is the evaluation's, measured where it was measured; ramp-up and tail are the step model's
(`performance.offline`).
"""

from __future__ import annotations

from firsttoken_sizing.optimize.evaluation import Evaluation, InfeasibleCandidate, slowed
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.offline import OfflinePlan, finish_seconds, full_throughput
from firsttoken_sizing.performance.offline import plan as offline_plan
from firsttoken_sizing.request import Infeasible, Job
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import OfflineJob

_SECONDS_PER_HOUR = 3600


def job_plan(evaluation: Evaluation, lengths: Lengths, job: OfflineJob) -> OfflinePlan | InfeasibleCandidate:
    """The fewest replicas that are done in time; infeasible where one request alone takes longer than the deadline."""
    step = _at_speed(evaluation, lengths)
    found = offline_plan(step, lengths, job, evaluation.key.gpus_per_replica)
    if found is not None:
        return found
    hours = finish_seconds(step, lengths, 1) / _SECONDS_PER_HOUR
    key = evaluation.key
    sentence = (
        f"one request alone takes {hours * _SECONDS_PER_HOUR:.1f} s on {key.gpus_per_replica} x {key.gpu}"
        f" {key.precision}, longer than traffic.offline.deadlineHours {job.deadline_hours:g}; raise the deadline to at"
        f" least {hours:.2g} hours, or use a faster GPU"
    )
    shortfall = hours / job.deadline_hours
    return InfeasibleCandidate(
        evaluation.bound.candidate, Infeasible.END_TO_END_INCONSISTENT, sentence, shortfall, evaluation.bound.memory
    )


def job_of(found: OfflinePlan, declared: OfflineJob, cost_per_hour: float | None) -> Job:
    """Describe the job in the answer. `cost_per_hour`: of the whole fleet, None without a price."""
    hours = found.finish_seconds / _SECONDS_PER_HOUR
    cost = None if cost_per_hour is None else cost_per_hour * hours
    return Job(
        requests=declared.requests,
        deadline_hours=declared.deadline_hours,
        finish_hours=hours,
        gpu_hours=found.gpu_hours,
        cost=cost,
        cost_per_thousand_requests=None if cost is None else 1000 * cost / declared.requests,
    )


def _at_speed(evaluation: Evaluation, lengths: Lengths) -> StepModel:
    """The step model with all its times scaled so that its throughput is the evaluation's."""
    step = evaluation.bound.step
    return slowed(step, full_throughput(step, lengths).requests_per_second / evaluation.capacity)
