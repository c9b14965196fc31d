"""GPUs that Deployments held at any time: every state that the API server had of them and their pods, in order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.cluster import Cluster, kubectl


@dataclass
class Held:
    """GPUs that one Deployment holds: its pods by uid, True for those that end."""

    each: int
    replicas: int = 0
    pods: dict[str, bool] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        ending = sum(self.pods.values())
        return (max(self.replicas, len(self.pods) - ending) + ending) * self.each


class History:
    """Every state of Deployments and pods that the API server had since `recorded` began."""

    def __init__(self, folder: Path, each: Mapping[str, int]) -> None:
        """`each`: GPUs of a replica by the name of a Deployment, which is the label `app` of its pods."""
        self.each = each
        self.files = {kind: folder / f"{kind}.json" for kind in ("deployments", "pods")}

    def states(self) -> Iterator[dict[str, int]]:
        """GPUs that each of them holds, after each change."""
        decoder, events = json.JSONDecoder(), []
        for kind, file in self.files.items():
            text, at = file.read_text(), 0
            while (at := next((i for i in range(at, len(text)) if text[i] == "{"), -1)) >= 0:
                try:
                    event, at = decoder.raw_decode(text, at)
                except json.JSONDecodeError:
                    break  # It was cut off in the middle of the last one.
                events.append((int(event["object"]["metadata"]["resourceVersion"]), kind, event))
        held = {name: Held(each) for name, each in self.each.items()}
        for _, kind, event in sorted(events, key=lambda e: e[0]):
            body = event["object"]
            if kind == "deployments" and body["metadata"]["name"] in held:
                held[body["metadata"]["name"]].replicas = body["spec"]["replicas"]
            elif kind == "pods" and (of := held.get(body["metadata"].get("labels", {}).get("app", ""))):
                of.pods[body["metadata"]["uid"]] = "deletionTimestamp" in body["metadata"]
                if event["type"] == "DELETED":
                    del of.pods[body["metadata"]["uid"]]
            yield {name: each.gpus for name, each in held.items()}


@contextmanager
def recorded(cluster: Cluster, folder: Path, each: Mapping[str, int]) -> Iterator[History]:
    """Record every event of Deployments and pods. `each`: GPUs of a replica of a Deployment."""
    history = History(folder, each)
    with ExitStack() as stack:
        for kind, file in history.files.items():
            select = ("--kubeconfig", str(cluster.kubeconfig), "get", kind, "-A", "-o", "json")
            command = [str(kubectl()), *select, "--watch", "--output-watch-events"]
            told = stack.enter_context(file.open("w"))
            watching = stack.enter_context(subprocess.Popen(command, stdout=told))
            stack.callback(watching.kill)
        yield history
