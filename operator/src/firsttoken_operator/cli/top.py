"""`firsttoken top`: every deployment of a cluster in a line, as the operator's status tells it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli.cluster import add_cluster, arguments_of, inference_deployments
from firsttoken_operator.cli.output import add_output, columns, emit
from firsttoken_operator.domain import ConditionType

_HEADINGS = {
    "namespace": "NAMESPACE",
    "name": "NAME",
    "mode": "MODE",
    "requestsPerSecond": "REQ/S",
    "readyReplicas": "READY",
    "desiredReplicas": "WANTED",
    "replicaLimit": "MAX",
    "predictedMilliseconds": "TTFT ms",
    "limitMilliseconds": "LIMIT",
    "percentile": "OF",
    "slaMet": "SLA",
    "gpus": "GPUS",
    "unmetGPUs": "LACKING",
    "lateBudgetSpentPercent": "LATE %",
    "reason": "REASON",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `top`."""
    add_cluster(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="instead of one namespace")
    add_output(parser, ("table", "json"))


def run(args: argparse.Namespace) -> int:
    """Show the deployments. Raises `ClusterProblem`."""
    rows = [row(d) for d in inference_deployments(arguments_of(args), everywhere=args.all_namespaces)]
    if args.output == "json":
        text = json.dumps(rows, indent=2) + "\n"
    elif rows:
        table = columns((tuple(_HEADINGS.values()), *(tuple(_cell(r[key]) for key in _HEADINGS) for r in rows)))
        text = "".join(f"{line}\n" for line in table)
    else:
        text = "no InferenceDeployment here; -A looks in all namespaces\n"
    emit(text.encode(), args.out)
    return 0


def row(deployment: InferenceDeployment) -> dict[str, Any]:
    """One deployment; what the status does not tell is None. TTFT is the predicted one at the replicas decided."""
    status, limit = deployment.status, deployment.spec.sla.time_to_first_token
    traffic, capacity, calibration = status.traffic, status.capacity, status.calibration
    predicted = status.prediction.n if status.prediction else None
    ttft = predicted.time_to_first_token if predicted else None
    met = next((c for c in status.conditions if c.type == ConditionType.SLA_MET), None)
    return {
        "namespace": deployment.metadata.namespace,
        "name": deployment.metadata.name,
        "mode": deployment.spec.scaling.mode.value,
        "requestsPerSecond": traffic.live.requests_per_second if traffic and traffic.live else None,
        "readyReplicas": status.ready_replicas,
        "desiredReplicas": status.desired_replicas,
        "replicaLimit": status.replica_limit,
        "predictedMilliseconds": ttft.milliseconds if ttft else None,
        "limitMilliseconds": limit.milliseconds if limit else None,
        "percentile": limit.percentile.value if limit else None,
        "slaMet": met.status.value if met else None,
        "gpus": capacity.charged_gpus if capacity else None,
        "unmetGPUs": capacity.unmet_gpus if capacity else None,
        "lateBudgetSpentPercent": calibration.late_budget_spent_percent if calibration else None,
        "reason": status.last_decision_reason,
    }


def _cell(value: str | int | None) -> str:
    return "-" if value is None else str(value)
