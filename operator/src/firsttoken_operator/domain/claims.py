"""Who has a hand in the replicas of a target: facts from the cluster, of which `decide` judges whose they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Claims:
    """What the cluster says of one resource and its target.

    `target_name`: the Deployment that the resource names, whether or not it is there; empty: its spec is not readable.
    `is_rendered`: it is to be made from `spec.runtime`. `owner`: its controller. `autoscaler`: the
    HorizontalPodAutoscaler on it; empty: there is none.
    """

    target_name: str = ""
    is_rendered: bool = False
    owner: Owner | None = None
    autoscaler: str = ""
