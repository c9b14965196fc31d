"""Pods of a target: one by one, as the choice of those that end needs them, and what keeps them from their nodes.

Beside them, what marks the pods that keep its image.
"""

from __future__ import annotations

from dataclasses import dataclass

WARM_CLASS = "firsttoken-warm"
"""PriorityClass of pods that hold GPUs only until another pod wants them."""

KEEPER_KIND, KEEPER_LABEL = "DaemonSet", "firsttoken.dev/image-of"
"""Kind that keeps the image of a resource on nodes, and the label of its pods that names the resource."""


@dataclass(frozen=True, slots=True)
class ReplicaPod:
    """One pod of a target that is not ending.

    `deletion_cost`: rank by which Kubernetes ends ready pods, lowest first; None: none is set, which counts as 0.
    `is_ours`: this operator has set it.
    `node`: where it runs, empty: nowhere yet; `others_there`: pods with GPUs on that node that are not of this target.
    """

    uid: str
    name: str
    ready: bool
    created_seconds: float
    deletion_cost: int | None = None
    is_ours: bool = False
    node: str = ""
    node_created_seconds: float = 0.0
    others_there: int = 0


@dataclass(frozen=True, slots=True)
class CostChange:
    """A pod, and the deletion cost that it is to have; None: none."""

    pod: ReplicaPod
    cost: int | None


@dataclass(frozen=True, slots=True)
class Hindrances:
    """Whatever keeps pods of a target from a node, or took them from theirs, beside the number of free GPUs.

    `gated`: pods that no scheduler looks at before their scheduling gates (`gates`) are taken away, as Kueue does when
    it admits them. `unclaimed`: pods without a place that ask for devices by ResourceClaim. `said`: the scheduler's
    words on a pod that it finds no node for. `preempted`: pods that had to end for some of a higher PriorityClass,
    lately. `placeless_seconds`: for how long each pod that finds no node has been waiting for one.
    """

    gated: int = 0
    gates: str = ""
    unclaimed: int = 0
    said: str = ""
    preempted: int = 0
    placeless_seconds: tuple[float, ...] = ()
    usual_seconds: float | None = None
    """Time after which most nodes came; None: it is not known."""
    are_nodes_coming: bool = False
    """True where nodes come for pods that wait, and may still: judged, as the next one."""
    overdue: int = 0
    """Pods for which they should have come by now."""
    unmounted: int = 0
    """Pods of which nothing has begun on their nodes for long, while pods on another node have mounted their claim."""
    volume_claim: str = ""
    """Name of that PersistentVolumeClaim."""
    half_made: int = 0
    """Groups that wait for pods of theirs which the API server refuses, as `refused` says."""
    refused: str = ""
