"""Play of what adds nodes to a cloud: nodes come a while after pods with GPUs wait for them, and empty ones go.

It orders as cluster-autoscaler and Karpenter do: for the pods that the scheduler calls unschedulable, less what the
nodes that are ordered already will hold, whole servers, never beyond a quota. A node registers `delay_seconds` after it
was ordered, and is deleted when no pod with GPUs was on it for `empty_seconds`; nodes that it did not make stay.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from kubernetes import client

from tools.cluster.emulation import GpuServers

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
PROVISIONED_LABEL = "firsttoken.dev/provisioned"
LOOK_SECONDS = 0.3


@dataclass
class Provisioner:
    """Adder and remover of nodes, between `with` and the end of the block.

    `servers`: one node of the kind that it adds; its `count` is the quota in nodes, beyond which orders wait.
    """

    api: client.ApiClient
    servers: GpuServers
    delay_seconds: float
    empty_seconds: float
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of its nodes."""
    ordered: list[str] = field(default_factory=list)
    """Names of all nodes that were ordered, in their order."""
    removed: list[str] = field(default_factory=list)
    refused: int = 0
    """Looks at which pods waited and the quota was used up."""

    def __post_init__(self) -> None:
        self._core = client.CoreV1Api(self.api)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="provisioner", daemon=True)
        self._due: dict[str, float] = {}
        """Times at which ordered nodes register, by their names."""
        self._empty_since: dict[str, float] = {}
        self.error: BaseException | None = None

    def __enter__(self) -> Provisioner:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(10)
        if self.error is not None and error is None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._ended.wait(LOOK_SECONDS):
                self.look(time.monotonic())
        except BaseException as error:
            self.error = error

    def look(self, now: float) -> None:
        """Order for what waits, register what is due, and remove what was empty for long enough."""
        pods = _items(self._core.list_pod_for_all_namespaces(_preload_content=False))
        own = f"{PROVISIONED_LABEL}={self.servers.prefix}"
        found = _items(self._core.list_node(label_selector=own, _preload_content=False))
        nodes = [str(node["metadata"]["name"]) for node in found]
        for name in [name for name, due in self._due.items() if due <= now]:
            self._register(name)
            nodes.append(name)
            del self._due[name]
        used: Counter[str] = Counter()
        for pod in pods:
            used[pod["spec"].get("nodeName", "")] += _gpus(pod)
        waiting = (_gpus(pod) for pod in pods if _waits(pod) and self._would_hold(pod))
        self._order(
            sorted(filter(None, waiting), reverse=True), [self.servers.gpus - used[name] for name in nodes], now
        )
        for name in nodes:
            if used[name]:
                self._empty_since.pop(name, None)
            elif now - self._empty_since.setdefault(name, now) >= self.empty_seconds:
                self._core.delete_node(name)
                self.removed.append(name)
                del self._empty_since[name]

    def _order(self, waiting: list[int], free: list[int], now: float) -> None:
        """Order nodes for what waits, by the GPUs of each pod; `free`: GPUs of each node that is there."""
        # NB: a node that has just registered takes pods at the scheduler's next look.
        free = free + [self.servers.gpus] * len(self._due)
        for gpus in waiting:
            place = next((i for i, left in enumerate(free) if left >= gpus), None)
            if place is None:
                if len(free) >= self.servers.count:
                    self.refused += 1
                    return
                name = f"{self.servers.prefix}-{len(self.ordered)}"
                self.ordered.append(name)
                self._due[name] = now + self.delay_seconds
                free.append(self.servers.gpus)
                place = len(free) - 1
            free[place] -= gpus

    def _register(self, name: str) -> None:
        (manifest,) = replace(self.servers, count=1, prefix=name).manifests()
        body = self.api.sanitize_for_serialization(manifest)  # type: ignore[no-untyped-call]
        body["metadata"]["name"] = name
        body["metadata"]["labels"] |= {"kubernetes.io/hostname": name, **self._own_labels}
        self._core.create_node(body)

    def _would_hold(self, pod: Json) -> bool:
        labels = {**self.servers.labels, **self._own_labels}
        return all(labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())

    @property
    def _own_labels(self) -> dict[str, str]:
        return {PROVISIONED_LABEL: self.servers.prefix, **self.labels}


def _items(answer: Any) -> list[Json]:
    items: list[Json] = json.loads(answer.data)["items"]
    return items


def _gpus(pod: Json) -> int:
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    return sum(int(each.get("resources", {}).get("limits", {}).get(GPU, 0)) for each in pod["spec"]["containers"])


def _waits(pod: Json) -> bool:
    """Tell whether the scheduler finds no node for a pod, not even one that it is to get from others."""
    if "deletionTimestamp" in pod["metadata"] or pod["status"].get("nominatedNodeName"):
        return False
    found = {each["type"]: each for each in pod["status"].get("conditions", ())}.get("PodScheduled", {})
    return (found.get("status"), found.get("reason")) == ("False", "Unschedulable")
