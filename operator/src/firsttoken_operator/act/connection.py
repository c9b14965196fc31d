"""One request to the API server and its answer: deadline, silence after a 429, the server's clock, who may write.

Every request has a total deadline. Nothing here retries: the caller knows whether repeating is safe. After a request
for silence (429 with Retry-After) every one is `Throttled` without being sent, until the time has passed.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client

from firsttoken_operator.act.errors import (
    ClusterError,
    Conflict,
    NotFound,
    Rejected,
    Throttled,
    Unavailable,
    Withheld,
)
from firsttoken_operator.act.objects import Json, read_document

REQUEST_TIMEOUT_SECONDS = 10.0
SILENCE_SECONDS = 1.0
"""Time for which nothing is sent to a server that throttles without saying for how long."""
LONGEST_SILENCE_SECONDS = 300.0
DATE_RESOLUTION_SECONDS = 2.0
"""Resolution of the header `Date`, and of the way that it comes: less is no other clock."""
WATCH_SILENCE_SECONDS = 70.0
"""A watch hears a bookmark every minute; where it hears nothing for longer, its connection is dead."""
WHOLE = "application/json"


class Connection:
    """The API server. `_request` and `_answer` raise `ClusterError`; close it when done.

    `write_seconds` is asked when a write is about to be sent: for how long it may be under way; 0: it is not sent.
    `beside`: another one to the same server; what withholds its writes withholds these too.
    """

    def __init__(
        self,
        api_client: client.ApiClient,
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        write_seconds: Callable[[], float] = lambda: math.inf,
        beside: Connection | None = None,
    ) -> None:
        self._client = api_client
        self._timeout_seconds = timeout_seconds
        self._write_seconds = write_seconds
        self._beside = beside
        self._withheld = ""
        self._clock = clock
        self.heard_seconds = -math.inf
        """Time at which the server last answered anything, or told of anything in a watch, on the monotonic clock."""
        self._silent_until = 0.0
        self._dated: tuple[float, float] | None = None
        """Clock of the server as the last answer said it, and when on our monotonic one."""

    @property
    def withheld(self) -> str:
        """Reason that nothing is written now; empty: writes are sent."""
        return self._withheld or (self._beside.withheld if self._beside is not None else "")

    @withheld.setter
    def withheld(self, why: str) -> None:
        self._withheld = why

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    def wall_seconds(self) -> float:
        """Seconds since the epoch on the clock of the API server, which dates every object; ours before it answered."""
        if self._dated is None:
            return time.time()
        said, at = self._dated
        return said + self._clock() - at

    def ahead_seconds(self) -> float:
        """Time by which that clock is ahead of this machine's."""
        return self.wall_seconds() - time.time()

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        media: str = "",
        accept: str = WHOLE,
    ) -> Json:
        async with self._answer(method, path, query, body, media, accept, self._timeout_seconds) as response:
            return document(method, path, await response.read())

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        media: str = "",
        accept: str = WHOLE,
        seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request, and give its answer; `seconds` is for all of it, inf: as long as the server says more.

        Raises `ClusterError`, also for what befalls the connection while the answer is read.
        """
        if self.withheld and method != "GET":
            raise Withheld(f"{method} {path}: {self.withheld}")
        silence = self._silent_until - self._clock()
        if silence > 0:
            raise Throttled(f"{method} {path}: not sent, the API server asked for silence", silence)
        headers = {"Accept": accept} | ({"Content-Type": media} if media else {})
        if method != "GET" and (seconds := min(seconds, self._write_seconds())) <= 0:
            raise Withheld(f"{method} {path}: another operator may lead")
        # NB: above its threshold aiohttp rounds a deadline up to the next second.
        timeout = aiohttp.ClientTimeout(total=seconds, ceil_threshold=math.inf)
        if seconds == math.inf:
            timeout = aiohttp.ClientTimeout(sock_connect=self._timeout_seconds, sock_read=WATCH_SILENCE_SECONDS)
        try:
            _, url, headers, _, _ = await self._client.param_serialize(
                method, path + (f"?{urlencode(query)}" if query else ""), header_params=headers,
                query_params=[], auth_settings=["BearerToken"],
            )  # fmt: skip
            sent = await self._client.call_api(method, url, headers, body, _request_timeout=timeout)
            async with sent.response as response:
                self.heard_seconds = self._clock()
                self._note_date(str(response.headers.get("Date", "")))
                if response.status >= 400:
                    raise self._refusal(method, path, response, await response.read())
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error

    def _refusal(self, method: str, path: str, response: aiohttp.ClientResponse, answer: bytes) -> ClusterError:
        refusal = _error(method, path, response.status, answer, response.headers.get("Retry-After"))
        if isinstance(refusal, Throttled):
            self._silent_until = max(self._silent_until, self._clock() + refusal.retry_after_seconds)
        return refusal

    def _note_date(self, header: str) -> None:
        # NB: whole seconds, and an answer may come out of a proxy's cache: the clock is only ever moved by more.
        with contextlib.suppress(ValueError):
            said, now = parsedate_to_datetime(header).timestamp(), self._clock()
            if self._dated is None or abs(said - self.wall_seconds()) > DATE_RESOLUTION_SECONDS:
                self._dated = said, now


def document(method: str, path: str, answer: bytes) -> Json:
    """The JSON object of an answer; anything else is `Unavailable`."""
    try:
        found = read_document(answer.decode())
    except ValueError as error:
        raise Unavailable(f"{method} {path}: the answer is not JSON") from error
    if not isinstance(found, dict):
        raise Unavailable(f"{method} {path}: the answer is not a JSON object")
    return found


def _error(method: str, path: str, status: int, answer: bytes, retry_after: str | None) -> ClusterError:
    try:
        message = str(json.loads(answer).get("message", ""))
    except (ValueError, AttributeError):
        message = ""
    text = f"{method} {path}: {status} {message or 'no message'}"
    if status == 404:
        return NotFound(text)
    if status == 409:
        return Conflict(text)
    if status == 429 or (status == 503 and retry_after):
        # NB: a date is allowed too; an API server sends seconds.
        seconds = float(retry_after) if retry_after and retry_after.isdecimal() else SILENCE_SECONDS
        return Throttled(text, min(seconds, LONGEST_SILENCE_SECONDS))
    if status >= 500:
        return Unavailable(text)
    return Rejected(text, status)
