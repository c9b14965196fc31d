"""Differences between the pods that run and those that an apply would make, found by the API server itself.

A dry run of the apply counts what a comparison with the manifest cannot: fields that go, defaults, and amounts that the
server writes in another way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.act.manifests import pods_of, revision_of
from firsttoken_operator.act.pods import Json, Rendering
from firsttoken_operator.api.runtime import RELEASED_ROLLOUT
from firsttoken_operator.domain import RolloutPolicy

_SHOWN = 3
"""Places of a difference that are named."""


async def rollout_of(cluster: KubernetesCluster, manifest: Json, live: Json) -> list[str]:
    """Places in the template of the pods that an apply of this manifest would change; none: no pod is replaced."""
    metadata = manifest["metadata"] | {"uid": live["metadata"]["uid"]}
    would_be = await cluster.apply(manifest | {"metadata": metadata}, dry_run=True)
    return list(changes(pods_of(live), pods_of(would_be)))


def pending_text(rendering: Rendering, manifest: Json, places: list[str]) -> str:
    """Say until when the pods stay as they are, which revision waits, in what it differs and how it is released."""
    until = "no request is served" if rendering.runtime.rollout_policy is RolloutPolicy.WHEN_IDLE else "it is released"
    metadata, revision = rendering.resource.metadata, revision_of(manifest)
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return (
        f"until {until}; revision {revision} differs in {', '.join(places[:_SHOWN])}{more}; to release it: kubectl -n"
        f" {metadata.namespace} annotate infd {metadata.name} {RELEASED_ROLLOUT}={revision} --overwrite"
    )


def exchange_text(rendering: Rendering, manifest: Json, live: Json) -> str:
    """Say why the pods stay as they are where one kind of workload would take the place of another, and what to do.

    Both at once would hold the GPUs twice: the one that is there is deleted by who can spare it, and its pods count in
    the pool until they are gone.
    """
    metadata, servers = rendering.resource.metadata, rendering.servers
    each = "one server" if servers == 1 else f"{servers} servers"
    return (
        f"until the {live['kind']} is deleted, because replicas of {each} run as a {manifest['kind']}; to release it:"
        f" kubectl -n {metadata.namespace} delete {live['kind'].lower()} {metadata.name}"
    )


def changes(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Places in which two documents differ, as paths without the first point."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changes(before.get(key), after.get(key), f"{place}.{key}" if place else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{place}[{number}]")
    elif before != after:
        yield place
