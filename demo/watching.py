"""Watches a run: every event of the target from the API server, and a sample of the rest twice a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from kubernetes import client, config, watch

from demo.record import Record, ReplicaEvent, Sample
from demo.stage import Stage

WATCH_SECONDS = 3600
WELL = {
    "Ready": "True", "SizingReady": "True", "SLAFeasible": "True", "MetricsHealthy": "True",
    "CapacityAvailable": "True", "ScalingActive": "True", "ScalingLimited": "False",
}  # fmt: skip
"""Statuses of the conditions that a run is held up by where they are another."""
RETRY_SECONDS = 0.2


class TargetWatch:
    """Appends every watch event of the target to the record, from its own thread, until it is stopped."""

    def __init__(self, stage: Stage, record: Record) -> None:
        self._stage, self._record = stage, record
        self._events: list[tuple[float, int, int]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="target-watch", daemon=True)
        self._thread.start()

    def start_clock(self, began: float) -> None:
        """Call the present of the monotonic clock `began` second 0 of the record."""
        self._record.events[:] = [ReplicaEvent(at - began, replicas, ready) for at, replicas, ready in self._events]
        self._began = began

    _began: float | None = None

    def stop(self) -> None:
        """Record nothing more."""
        self._stopping.set()

    def _run(self) -> None:
        api = config.new_client_from_config(str(self._stage.place.kubeconfig))  # type: ignore[no-untyped-call]
        apps = client.AppsV1Api(api)
        version = None
        while not self._stopping.is_set():
            # NB: the API server ends a watch now and then; it goes on from the last version, so that nothing is missed.
            try:
                stream = watch.Watch().stream(  # type: ignore[no-untyped-call]
                    apps.list_namespaced_deployment,
                    self._stage.namespace,
                    field_selector=f"metadata.name={self._stage.target}",
                    resource_version=version,
                    timeout_seconds=WATCH_SECONDS,
                )
                for event in stream:
                    if self._stopping.is_set():
                        return
                    found = event["object"]
                    version = found.metadata.resource_version
                    self._add(time.monotonic(), int(found.spec.replicas or 0), int(found.status.ready_replicas or 0))
            except urllib3.exceptions.HTTPError:
                time.sleep(RETRY_SECONDS)
            except client.ApiException:
                version = None  # too old: list again
                time.sleep(RETRY_SECONDS)

    def _add(self, at: float, replicas: int, ready: int) -> None:
        self._events.append((at, replicas, ready))
        if self._began is not None:
            self._record.events.append(ReplicaEvent(at - self._began, replicas, ready))


def take_sample(stage: Stage, sized: Callable[[float], int]) -> Sample | None:
    """One sample of the fleet's truth and the resource's status; None while the fleet does not answer.

    `sized`: replicas that the sizing model asks for at a rate.
    """
    stats = stage.stats()
    if stats is None:
        return None
    status = stage.status()
    return Sample(
        seconds=stats["elapsedSeconds"],
        offered_requests_per_second=stats["offeredRequestsPerSecond"],
        sized=sized(stats["offeredRequestsPerSecond"]),
        desired=status.get("desiredReplicas", 0),
        ready=status.get("readyReplicas", 0),
        ttft_p95_milliseconds=stats.get("ttftP95Milliseconds"),
        attainment_percent=stats.get("attainmentPercent"),
        lateness_p99_seconds=stats["latenessP99Seconds"],
        reason=status.get("lastDecisionReason", ""),
        real_ttft_p95_milliseconds=stats.get("real", {}).get("ttftP95Milliseconds"),
    )


def complaints(status: Mapping[str, Any]) -> list[str]:
    """Conditions of a resource that are not as they should be, with what they say; of one without any, that."""
    conditions = status.get("conditions", [])
    if not conditions:
        return ["the operator has written no condition"]
    return [
        f"{each['type']} is {each['status']}: {each['reason']}: {each['message']}"
        for each in conditions
        if each["status"] != WELL.get(each["type"], each["status"])
    ]
