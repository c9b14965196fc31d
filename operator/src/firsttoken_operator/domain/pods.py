"""Pods of a target: one by one, as the choice of those that end needs them, and what keeps them from their nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaPod:
    """One pod of a target that is not ending.

    `deletion_cost`: rank by which Kubernetes ends ready pods, lowest first; None: none is set, which counts as 0.
    `is_ours`: this operator has set it.
    """

    uid: str
    name: str
    ready: bool
    created_seconds: float
    deletion_cost: int | None = None
    is_ours: bool = False


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
    lately.
    """

    gated: int = 0
    gates: str = ""
    unclaimed: int = 0
    said: str = ""
    preempted: int = 0
