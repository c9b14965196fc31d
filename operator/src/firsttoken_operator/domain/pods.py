"""Pods of a target one by one, as far as the choice of those that a smaller fleet ends needs them."""

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
