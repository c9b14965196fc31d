"""The API server as the rig uses it: plain JSON on kept connections, in several threads, and watches that go on.

The client of `kubernetes` would model every object, of which there are tens of thousands here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import urllib3

from at_scale.manifests import Manifest
from tools.cluster import Cluster

THREADS = 8
TIMEOUT_SECONDS = 60.0
WATCH_SECONDS = 7200
RETRY_SECONDS = 0.5
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""Form in which an object is the row that kubectl shows: a tenth of its size."""
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

Item = TypeVar("Item")
Result = TypeVar("Result")


class ApiError(RuntimeError):
    """The server refused a request; the message has its answer."""


class Api:
    """Requests with the administrator's rights, from any thread."""

    def __init__(self, cluster: Cluster) -> None:
        known = cluster.client.configuration
        self._url = cluster.api_url
        self._pool = urllib3.PoolManager(
            maxsize=4 * THREADS,
            cert_file=known.cert_file,
            key_file=known.key_file,
            ca_certs=known.ssl_ca_cert,
            timeout=TIMEOUT_SECONDS,
            retries=False,
        )

    def get(self, path: str, *, accept: str = "application/json") -> Any:
        """Read JSON. Raises `ApiError`."""
        return json.loads(self._request("GET", path, headers={"Accept": accept}))

    def text(self, path: str) -> str:
        """Read text, such as the server's metrics. Raises `ApiError`."""
        return self._request("GET", path).decode()

    def create(self, path: str, manifest: Manifest) -> Manifest:
        """Create one object in a collection; returns it. Raises `ApiError`."""
        return self._send("POST", path, manifest, "application/json")

    def merge(self, path: str, patch: Manifest) -> Manifest:
        """Merge into an object. Raises `ApiError`."""
        return self._send("PATCH", path, patch, MERGE_PATCH)

    def apply(self, path: str, manifest: Manifest) -> Manifest:
        """Apply an object on the server's side. Raises `ApiError`."""
        return self._send("PATCH", f"{path}?fieldManager=rig&force=true", manifest, APPLY)

    def delete(self, path: str) -> None:
        """Delete one object. Raises `ApiError`."""
        self._request("DELETE", path)

    def lines(self, path: str, accept: str) -> urllib3.BaseHTTPResponse:
        """Open a stream, such as a watch. Raises `ApiError`."""
        timeout = urllib3.Timeout(connect=TIMEOUT_SECONDS, read=WATCH_SECONDS)
        url = f"{self._url}{path}"
        answer = self._pool.request("GET", url, headers={"Accept": accept}, preload_content=False, timeout=timeout)
        if answer.status >= 300:
            raise ApiError(f"GET {path}: {answer.status}")
        return answer

    def _send(self, method: str, path: str, document: Manifest, kind: str) -> Manifest:
        body = json.dumps(document).encode()
        found: Manifest = json.loads(self._request(method, path, body=body, headers={"Content-Type": kind}))
        return found

    def _request(self, method: str, path: str, **more: Any) -> bytes:
        answer = self._pool.request(method, f"{self._url}{path}", **more)
        if answer.status >= 300:
            raise ApiError(f"{method} {path}: {answer.status} {answer.data[:400].decode(errors='replace')}")
        return answer.data


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do the work for each in a few threads; what one raises, this raises."""
    with ThreadPoolExecutor(THREADS) as executor:
        return list(executor.map(work, items))


class Follower:
    """Follows a collection in a thread until it is stopped.

    `take` is told each object, or each row of a table, and the monotonic time at which it was seen: first those that
    are there, then every change. Where the server ends a watch that cannot keep up, the collection is read again.
    """

    def __init__(self, api: Api, path: str, take: Callable[[Any, float], None], accept: str = "application/json"):
        self._api, self._path, self._take, self._accept = api, path, take, accept
        self._stopping, self._open = threading.Event(), threading.Event()
        self.begun = 0
        """Times that the collection was read."""
        self._thread = threading.Thread(target=self._run, name=f"watch of {path}", daemon=True)
        self._thread.start()
        if not self._open.wait(TIMEOUT_SECONDS):
            raise TimeoutError(f"no watch of {path}")

    def stop(self) -> None:
        """Take nothing more."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (ApiError, urllib3.exceptions.HTTPError, json.JSONDecodeError):
                time.sleep(RETRY_SECONDS)

    def _follow(self) -> None:
        found = self._api.get(f"{self._path}?resourceVersion=0&includeObject=None", accept=self._accept)
        self.begun += 1
        for each in found.get("items") or found.get("rows") or ():
            self._take(each, time.monotonic())
        version = found["metadata"]["resourceVersion"]
        more = f"watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}&includeObject=None"
        stream = self._api.lines(f"{self._path}?{more}", self._accept)
        self._open.set()
        with stream:
            for line in stream:
                if self._stopping.is_set():
                    return
                self._take_event(json.loads(line))

    def _take_event(self, event: Any) -> None:
        if event["type"] not in ("ADDED", "MODIFIED"):
            return
        found, now = event["object"], time.monotonic()
        for each in found["rows"] if found.get("kind") == "Table" else [found]:
            self._take(each, now)
