"""Emulation by kwok: GPU servers with the labels of NVIDIA's GPU feature discovery, and how long pods take.

Only the manifests; kwok reads the stages from a file, and `Cluster` creates the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes import client

STAGES = Path(__file__).with_name("stages.yaml")
FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"


@dataclass(frozen=True, slots=True)
class GpuServers:
    """A group of equal GPU servers; nodes are named `<prefix>-<number>`.

    `product` and `memory_mib` (a GPU's memory in MiB as nvidia-smi shows it) become the GFD labels
    `nvidia.com/gpu.product` and `nvidia.com/gpu.memory`; `gpus` becomes `nvidia.com/gpu.count` and the allocatable
    `nvidia.com/gpu`.
    """

    count: int = 8
    gpus: int = 8
    product: str = "NVIDIA-H100-80GB-HBM3"
    memory_mib: int = 81_559
    family: str = "hopper"
    prefix: str = "dgx"

    def manifests(self) -> list[client.V1Node]:
        """The nodes, ready to be created."""
        return [self._node(f"{self.prefix}-{number}") for number in range(self.count)]

    @property
    def labels(self) -> dict[str, str]:
        """Labels that GPU feature discovery gives each."""
        return {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": self.product,
            "nvidia.com/gpu.family": self.family,
            "nvidia.com/gpu.count": str(self.gpus),
            "nvidia.com/gpu.memory": str(self.memory_mib),
        }

    def _node(self, name: str) -> client.V1Node:
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            **self.labels,
        }
        annotations = {FAKE_NODE_ANNOTATION: "fake"}
        return client.V1Node(metadata=client.V1ObjectMeta(name=name, labels=labels, annotations=annotations))


def stages_document(*, ready_delay_seconds: float, terminate_delay_seconds: float) -> str:
    """Stages of kwok as YAML with these two delays, in seconds, as the default of every pod."""
    delays = {"pod-ready": ready_delay_seconds, "pod-gone": terminate_delay_seconds}
    stages = list(yaml.safe_load_all(STAGES.read_text()))
    for stage in stages:
        if (seconds := delays.get(stage["metadata"]["name"])) is not None:
            stage["spec"]["delay"]["durationMilliseconds"] = round(seconds * 1000)
    return yaml.safe_dump_all(stages, sort_keys=False)
