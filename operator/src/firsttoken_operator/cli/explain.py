"""`firsttoken explain NAME`: why a deployment in a cluster has the replicas that it has, and what would change that.

Everything is read from the spec and the status that the operator wrote; nothing is measured or computed anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from firsttoken_operator.api.conditions import Condition, ConditionStatus
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.sla import LatencyLimit
from firsttoken_operator.api.status import Configuration, PredictedLatency, PredictionAt, SizingStatus
from firsttoken_operator.cli.cluster import add_cluster, arguments_of, inference_deployments, named
from firsttoken_operator.cli.output import add_output, columns, emit
from firsttoken_operator.cli.remedies import REMEDIES
from firsttoken_operator.domain import ConditionType

_WELL_WHEN_FALSE = (ConditionType.SCALING_LIMITED, ConditionType.ROLLOUT_PENDING)
_LIMITS = {"TTFT": "time_to_first_token", "ITL": "inter_token_latency", "E2E": "end_to_end"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    parser.add_argument("name", metavar="NAME", help="of the InferenceDeployment")
    add_cluster(parser)
    add_output(parser, ("table", "json"))


def run(args: argparse.Namespace) -> int:
    """Explain one deployment. Raises `ClusterProblem`."""
    deployment = named(inference_deployments(arguments_of(args)), args.name)
    if args.output == "json":
        text = json.dumps(explanation(deployment), indent=2) + "\n"
    else:
        text = "".join(f"{line}\n" for line in lines(deployment))
    emit(text.encode(), args.out)
    return 0


def explanation(deployment: InferenceDeployment) -> dict[str, Any]:
    """Make a document for programs of what `lines` says."""
    status = deployment.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    shown = (
        "sizing",
        "replicas",
        "readyReplicas",
        "desiredReplicas",
        "replicaLimit",
        "lastDecisionReason",
        "prediction",
    )
    return {
        "namespace": deployment.metadata.namespace,
        "name": deployment.metadata.name,
        "mode": deployment.spec.scaling.mode.value,
        **{key: status[key] for key in shown if key in status},
        "whatWouldChange": [{"reason": reason, "by": by} for reason, by in remedies(deployment)],
        "decisions": status["decisions"],
    }


def lines(deployment: InferenceDeployment) -> Iterator[str]:
    """The explanation, line by line."""
    status, metadata = deployment.status, deployment.metadata
    yield f"{metadata.namespace}/{metadata.name}: {deployment.spec.model.name}"
    if status.desired_replicas is None and not status.conditions:
        yield "the operator has not looked at it yet: is it running, and does it watch this namespace?"
        return
    if status.sizing and status.sizing.configuration:
        yield f"A replica is {_replica(status.sizing.configuration)}. Mode {deployment.spec.scaling.mode.value}."
    if status.sizing and status.sizing.replicas_for_declared_peak is not None:
        yield f"Sized for the declared peak: {_sized(status.sizing)}."
    yield (
        f"Wanted {_or_dash(status.desired_replicas)} replicas, ready {_or_dash(status.ready_replicas)},"
        f" at most {_or_dash(status.replica_limit)}."
    )
    yield from _section("Why this number", _why(deployment))
    yield from _section("One replica fewer, and one more, at the load of now", _predictions(deployment))
    yield from _section("What would change it", (f"{reason}: {by}." for reason, by in remedies(deployment)))
    rows = [(d.time, str(d.from_replicas), str(d.to_replicas), d.reason, d.limited_by or "-") for d in status.decisions]
    table = columns((("TIME", "FROM", "TO", "REASON", "LIMITED BY"), *rows)) if rows else ["none yet"]
    yield from _section("The last changes, newest first", table)


def remedies(deployment: InferenceDeployment) -> list[tuple[str, str]]:
    """List what stands in the way or would move the number: the last decision, then conditions that are not well."""
    status = deployment.status
    last = status.decisions[0] if status.decisions else None
    words = [status.last_decision_reason or ""]
    if last is not None and last.to_replicas == status.desired_replicas:
        words.append(last.limited_by or "")
    words += [c.reason for c in status.conditions if not _is_well(c)]
    return [(word, REMEDIES[word]) for word in dict.fromkeys(words) if word in REMEDIES]


def _why(deployment: InferenceDeployment) -> Iterator[str]:
    status = deployment.status
    last = status.decisions[0] if status.decisions else None
    if last is not None and last.to_replicas == status.desired_replicas:
        yield f"since {last.time}: {last.message or last.reason}"
    if status.last_decision_reason:
        yield f"the last look at it: {status.last_decision_reason}"
    traffic = status.traffic
    if traffic and traffic.drift:
        yield traffic.drift
    for condition in status.conditions:
        if not _is_well(condition):
            yield f"{condition.type} {condition.status.value} ({condition.reason}): {condition.message}"


def _is_well(condition: Condition) -> bool:
    if condition.type == ConditionType.CALIBRATED:
        return condition.reason not in REMEDIES  # where nothing was learned yet, nothing is wrong
    well = ConditionStatus.FALSE if condition.type in _WELL_WHEN_FALSE else ConditionStatus.TRUE
    return condition.status is well


def _predictions(deployment: InferenceDeployment) -> Sequence[str]:
    prediction, sla = deployment.status.prediction, deployment.spec.sla
    points = [p for p in (prediction.n_minus_1, prediction.n, prediction.n_plus_1) if p] if prediction else []
    if not points:
        return ["nothing is predicted without a live load"]
    limits = {name: limit for name, field in _LIMITS.items() if (limit := getattr(sla, field)) is not None}
    header = ("REPLICAS", *(_heading(name, limit) for name, limit in limits.items()), "KV CACHE %")
    rows = [
        (str(p.replicas), *(_predicted(p, getattr(p, _LIMITS[name])) for name in limits), _or_dash(p.kv_cache_percent))
        for p in points
    ]
    return columns((header, *rows))


def _heading(name: str, limit: LatencyLimit) -> str:
    return f"{name} {limit.percentile.value} ms (LIMIT {limit.milliseconds})"


def _predicted(point: PredictionAt, latency: PredictedLatency | None) -> str:
    if latency is None:
        return "-"
    return f"{'above ' if point.saturated else ''}{latency.milliseconds}"


def _sized(sizing: SizingStatus) -> str:
    low, high = sizing.replicas_low, sizing.replicas_high
    between = f" ({low} to {high})" if low != high else ""
    return f"{sizing.replicas_for_declared_peak}{between} replicas, {sizing.basis}"


def _replica(c: Configuration) -> str:
    return f"{c.tensor_parallel * c.pipeline_parallel} x {c.gpu}, {c.precision}"


def _section(title: str, content: Iterator[str] | Sequence[str]) -> Iterator[str]:
    body = list(content) or ["nothing stands in the way"]
    yield from ("", title, *(f"  {line}" for line in body))


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
