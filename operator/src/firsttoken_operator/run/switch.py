"""The switch that stops all writes: a ConfigMap that an administrator makes, asked for twice a tick.

It is read live, beside the ticks, so that neither a watch that is stuck nor a tick that hangs on writes delays it, and
what it says is checked before every single request (`KubernetesCluster.withheld`).

| the ConfigMap | writes |
|---|---|
| does not exist | go on |
| `writes: active` | go on |
| `writes: paused`, any other value, no such key | are stopped |
| cannot be read | as it last said; after a start: stopped until it can be read once |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef

logger = logging.getLogger(__name__)

KEY, ACTIVE, PAUSED = "writes", "active", "paused"


class WriteSwitch:
    """The ConfigMap called `name` (`namespace/name`). Writes are withheld until it was read."""

    def __init__(self, cluster: KubernetesCluster, name: str) -> None:
        namespace, _, called = name.partition("/")
        self._cluster = cluster
        self._name = name
        self._ref = ObjectRef("v1", "ConfigMap", namespace, called)
        self._problem = ""
        cluster.withheld = f"ConfigMap {name}, which may stop writes, was not read yet"

    async def poll_forever(self, interval_seconds: float) -> None:
        """Read the switch now and after every interval."""
        while True:
            await self.read()
            await asyncio.sleep(interval_seconds)

    async def read(self) -> None:
        """Ask the API server what the switch says now. Never raises `ClusterError`."""
        try:
            why = self._why(await self._cluster.read(self._ref))
        except NotFound:
            why = ""
        except ClusterError as error:
            if str(error) != self._problem:
                state = "stay stopped" if self._cluster.withheld else "go on"
                logger.warning("cannot read the switch of all writes, which %s as they are: %s", state, error)
                self._problem = str(error)
            return
        self._problem = ""
        if why and why != self._cluster.withheld:
            logger.warning("all writes are stopped: %s", why)
        elif not why and self._cluster.withheld:
            logger.info("no ConfigMap %s stops writes", self._name)
        self._cluster.withheld = why

    def _why(self, body: Mapping[str, Any]) -> str:
        said = (body.get("data") or {}).get(KEY)
        if said == ACTIVE:
            return ""
        if said == PAUSED:
            return f"ConfigMap {self._name} says {KEY}: {PAUSED}; delete it to go on"
        if said is None:
            return f"ConfigMap {self._name} has no key {KEY!r} ({ACTIVE} or {PAUSED}), which stops all writes"
        return f"ConfigMap {self._name} says {KEY}: {said[:40]!r}, not {ACTIVE} or {PAUSED}, which stops all writes"
