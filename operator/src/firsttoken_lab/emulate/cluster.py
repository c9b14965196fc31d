"""Follows the pods of a Deployment, so that the emulated fleet is what the cluster says it is.

Reads only: one list and one watch of the Deployment's selector, on raw JSON (a typed pod costs a millisecond to parse,
and six fields are needed). Labels alone may match pods of others too, so the owners count: a pod is followed when its
ReplicaSet is controlled by the Deployment. Every interruption ends in a new list, so a missed event cannot last.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any

import aiohttp
from kubernetes.aio import client

from firsttoken_lab.emulate.fleet import Pod

RETRY_SECONDS = 1.0
WATCH_SECONDS = 240
ENDED_PHASES = ("Succeeded", "Failed")
"""Phases of a pod whose containers are gone for good, such as an evicted one; its object may stay for long."""

_log = logging.getLogger(__name__)


def pod_of(manifest: dict[str, Any]) -> Pod:
    """The few fields of a pod object that matter here."""
    metadata, status = manifest["metadata"], manifest.get("status", {})
    conditions = status.get("conditions") or []
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        ready=any(item["type"] == "Ready" and item["status"] == "True" for item in conditions),
        terminating="deletionTimestamp" in metadata,
        addressed=bool(status.get("podIP")),
    )


def controller_name(manifest: dict[str, Any], kind: str) -> str | None:
    """Name of the object of this kind that controls another one; None: it has no controller, or one of another kind."""
    for owner in manifest["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and owner["kind"] == kind:
            name: str = owner["name"]
            return name
    return None


def selector_of(deployment: dict[str, Any]) -> str:
    """`spec.selector` of a Deployment in the form that a list request takes."""
    selector = deployment["spec"]["selector"]
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule["key"], rule["operator"], ",".join(rule.get("values") or [])
        spelled = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(spelled[operator])
    return ",".join(parts)


async def _body(response: aiohttp.ClientResponse) -> dict[str, Any]:
    """The JSON of an answer; raw calls do not raise by themselves on an HTTP error."""
    body: dict[str, Any] = json.loads(await response.read())
    if response.status >= 400:
        raise client.ApiException(status=response.status, reason=body.get("message", ""))
    return body


class PodFollower:
    """Keeps `changed` told about the pods of one Deployment until cancelled."""

    def __init__(
        self, api: client.ApiClient, namespace: str, deployment: str, changed: Callable[[Iterable[Pod]], None]
    ) -> None:
        """`changed` gets all pods of the Deployment after every change, without those that have ended."""
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._deployment = deployment
        self._changed = changed
        self._pods: dict[str, Pod] = {}
        self._sets: dict[str, bool] = {}
        """ReplicaSets met since the last list, by name: whether the Deployment controls them."""

    async def run(self) -> None:
        """List and watch for ever; an unreachable API server is retried and logged, the pods stay as last seen."""
        while True:
            try:
                await self._list_and_watch()
            except client.ApiException as error:
                if error.status != 410:
                    _log.warning("pods of %s/%s: %s %s", self._namespace, self._deployment, error.status, error.reason)
                    await asyncio.sleep(RETRY_SECONDS)
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                _log.warning("pods of %s/%s: %s", self._namespace, self._deployment, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _list_and_watch(self) -> None:
        selector = selector_of(
            await _body(
                await self._apps.read_namespaced_deployment_without_preload_content(self._deployment, self._namespace)
            )
        )
        listed = await _body(
            await self._core.list_namespaced_pod_without_preload_content(self._namespace, label_selector=selector)
        )
        self._sets.clear()
        self._pods = {item["metadata"]["uid"]: pod_of(item) for item in listed["items"] if await self._is_ours(item)}
        self._changed(self._pods.values())
        response = await self._core.list_namespaced_pod_without_preload_content(
            self._namespace,
            label_selector=selector,
            watch=True,
            resource_version=listed["metadata"]["resourceVersion"],
            timeout_seconds=WATCH_SECONDS,
        )
        if response.status >= 400:
            await _body(response)
        try:
            async for line in response.content:
                await self._take(json.loads(line))
        finally:
            response.close()

    async def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            status = event["object"]
            raise client.ApiException(status=status.get("code"), reason=status.get("message"))
        if event["type"] == "BOOKMARK":
            return
        pod = pod_of(event["object"])
        if event["type"] != "DELETED" and await self._is_ours(event["object"]):
            self._pods[pod.uid] = pod
        elif self._pods.pop(pod.uid, None) is None:
            return
        self._changed(self._pods.values())

    async def _is_ours(self, manifest: dict[str, Any]) -> bool:
        """Tell whether a pod has not ended, and is of the Deployment: pod -> ReplicaSet -> Deployment.

        By name, not by uid: a Deployment that is deleted and made again is still the one to follow.
        """
        replica_set = controller_name(manifest, "ReplicaSet")
        if replica_set is None or manifest.get("status", {}).get("phase") in ENDED_PHASES:
            return False
        if replica_set not in self._sets:
            try:
                found = await _body(
                    await self._apps.read_namespaced_replica_set_without_preload_content(replica_set, self._namespace)
                )
            except client.ApiException as error:
                if error.status != 404:
                    raise
                # NB: deleted before its pods; one that was followed stays until its own deletion is seen.
                return manifest["metadata"]["uid"] in self._pods
            self._sets[replica_set] = controller_name(found, "Deployment") == self._deployment
        return self._sets[replica_set]
