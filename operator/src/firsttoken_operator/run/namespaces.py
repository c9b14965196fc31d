"""Namespaces of the declared ones that may be read: one that is gone, and its RoleBinding with it, stops no other one.

Settled at the start, for watches and caches alike. Where rights go the watches end the process, and where they come
`until_readable` does: the next process starts with what is true then, in seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from http import HTTPStatus

from firsttoken_operator.act.errors import ClusterError, Rejected
from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.run.watches import Watched

logger = logging.getLogger(__name__)

LOOK_SECONDS = 60.0


async def readable(cluster: KubernetesCluster, kind: Watched, namespaces: Iterable[str]) -> tuple[str, ...]:
    """Those in which objects of a kind may be listed; where that is not known it is assumed."""
    return tuple([name for name in namespaces if await _is_readable(cluster, kind, name)])


async def until_readable(cluster: KubernetesCluster, kind: Watched, namespaces: tuple[str, ...]) -> None:
    """Return when one of the namespaces, which are not, may be read."""
    logger.warning("not watched, because the operator has no rights there: namespaces %s", ", ".join(namespaces))
    found: tuple[str, ...] = ()
    while not found:
        await asyncio.sleep(LOOK_SECONDS)
        found = await readable(cluster, kind, namespaces)
    logger.warning("the operator starts anew, because it has rights now in: namespaces %s", ", ".join(found))


async def _is_readable(cluster: KubernetesCluster, kind: Watched, namespace: str) -> bool:
    try:
        await cluster.page(kind.path(namespace), {"limit": "1"}, float("inf"), metadata_only=True)
    except ClusterError as error:
        return not (isinstance(error, Rejected) and error.status == HTTPStatus.FORBIDDEN)
    return True
