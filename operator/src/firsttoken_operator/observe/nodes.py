"""Nodes as the pools see them: their GPUs, and what keeps pods from getting them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.domain import Exclusion
from firsttoken_operator.observe.devices import Published
from firsttoken_operator.observe.projections import (
    GPU_RESOURCES,
    Body,
    conditions_of,
    count,
    epoch_seconds,
    lost_since,
    true_since,
)
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.errors import SizingError

GPU_PRODUCT_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")
"""Labels of NVIDIA's GPU feature discovery and of AMD's node labeller, newest first."""
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
"""Label that says how many pods share a GPU, by time slicing or MPS."""
KEEPING_AWAY = frozenset({"NoSchedule", "NoExecute"})
"""Effects of a taint that keep pods away, unlike PreferNoSchedule."""
_SHARED = re.compile(r"-SHARED$", re.IGNORECASE)
_PARTITIONED = re.compile(r"-MIG-.*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node that keeps pods away which do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. `allocatable_gpus` None: its kubelet tells of no number. `ready_seconds`: since when it is ready.

    `lost_seconds`: since when one that was ready is not so any more. `cordoned`: no new pod is scheduled there.
    """

    name: str
    labels: Mapping[str, str]
    allocatable_gpus: int | None
    ready: bool
    created_seconds: float | None = None
    ready_seconds: float | None = None
    lost_seconds: float | None = None
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    published: Published | None = None
    """GPUs that a DRA driver publishes for it; None: none are, or they are not read."""

    @property
    def gpus(self) -> int | None:
        """GPUs that pods can get here: what two drivers tell of are the same."""
        if self.published is None:
            return self.allocatable_gpus
        return max(self.allocatable_gpus or 0, self.published.gpus)

    @property
    def product(self) -> str:
        """Catalog name of its GPU, whole or not, else what its label says; empty: it has no such label."""
        return canonical_gpu(_PARTITIONED.sub("", _SHARED.sub("", self._label)))

    @property
    def _label(self) -> str:
        published = self.published.product if self.published else ""
        return next((self.labels[label] for label in GPU_PRODUCT_LABELS if label in self.labels), published)

    def is_selected(self, selector: Mapping[str, str]) -> bool:
        """Tell whether it has all labels of a node selector."""
        return all(self.labels.get(key) == value for key, value in selector.items())

    def takes(self, tolerations: Iterable[Toleration]) -> bool:
        """Tell whether a new pod with these tolerations may be scheduled here."""
        return self.ready and not self.cordoned and all(_is_tolerated(taint, tolerations) for taint in self.taints)

    def exclusion(self, gpu: str, tolerations: Iterable[Toleration]) -> Exclusion | None:
        """Name what keeps pods for such a GPU (catalog name), with such tolerations, from it; None: nothing does."""
        # NB: without a label the selector of the pool is believed.
        found = (
            (self.gpus is None, Exclusion.NOT_REPORTED),
            (self.product not in ("", gpu), Exclusion.OTHER_GPU),
            (_PARTITIONED.search(self._label), Exclusion.PARTITIONED),
            (_SHARED.search(self._label) or count(self.labels.get(REPLICAS_LABEL)) > 1, Exclusion.SHARED),
            (not self.ready, Exclusion.NOT_READY),
            (self.cordoned, Exclusion.CORDONED),
            (any(not _is_tolerated(taint, tolerations) for taint in self.taints), Exclusion.TAINTED),
        )
        return next((cause for holds, cause in found if holds), None)


def project_node(body: Body) -> NodeView:
    """A node."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    allocatable = status.get("allocatable") or {}
    reported = [allocatable[name] for name in GPU_RESOURCES if name in allocatable]
    ready, created = conditions_of(status).get("Ready") or {}, epoch_seconds(metadata.get("creationTimestamp"))
    return NodeView(
        name=metadata.get("name", ""),
        labels=dict(metadata.get("labels") or {}),
        allocatable_gpus=sum(count(each) for each in reported) if reported else None,
        ready=ready.get("status") == "True",
        created_seconds=created,
        ready_seconds=true_since(ready),
        lost_seconds=lost_since(ready, created),
        cordoned=bool(spec.get("unschedulable")),
        taints=tuple(
            Taint(str(taint.get("key", "")), str(taint.get("value") or ""), str(taint.get("effect", "")))
            for taint in spec.get("taints") or ()
            if taint.get("effect") in KEEPING_AWAY
        ),
    )


@lru_cache(maxsize=256)
def canonical_gpu(name: str) -> str:
    """Catalog name of a GPU; one that the catalog lacks only equals itself."""
    try:
        return resolve_gpu(name).name
    except SizingError:
        return name


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    # Pods that ask for a GPU tolerate the taint that is named after it, ours and those of most clusters.
    return taint.key in GPU_RESOURCES or any(
        each.tolerates(taint.key, taint.value, taint.effect) for each in tolerations
    )
