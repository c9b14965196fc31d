"""`MetricsSource` on `prometheus-api-client`, with our own session, threads and deadline.

The client is blocking, retries by default, drops warnings and has no total time limit; what it may do is therefore
bounded here: four threads a source, one attempt, one deadline for waiting and answering together. A query past its
deadline is abandoned: its connection is shut and a late answer is dropped. No PromQL is made here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_api_client import PrometheusConnect

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.families.promql import without
from firsttoken_operator.observe.containment import LeftOut
from firsttoken_operator.observe.session import BoundedSession, Parse, RequestFailed, parse_json
from firsttoken_operator.observe.source import CutOff, Vector
from firsttoken_operator.observe.vector import read_vector

THREADS_PER_SOURCE = 4
MAXIMUM_DEADLINE_SECONDS = 10.0
LONGEST_ADDRESS = 200
DEFAULT_BYTE_CAP = 16 * 1024 * 1024


def query_deadline_seconds(tick_seconds: float) -> float:
    """Time that one query may take, waiting included: half a tick, at most 10 s."""
    return min(MAXIMUM_DEADLINE_SECONDS, tick_seconds / 2)


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One source as the cluster administrator configured it. `repr` hides the URL, which may hold credentials."""

    name: str
    url: str = field(repr=False)
    bearer_token_file: Path | None = None
    basic_auth: tuple[str, Path] | None = None
    """User, and the file of the password."""
    certificate_authority_file: Path | None = None
    client_certificate: tuple[Path, Path] | None = None
    """Files of a certificate and its key."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    byte_cap: int = DEFAULT_BYTE_CAP

    @property
    def about(self) -> str:
        """Name of the source for messages: without what a URL may hold of credentials."""
        parts = urlsplit(self.url)
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f'source "{self.name}" ({address[:LONGEST_ADDRESS]})'

    def session(self, parse: Parse = parse_json) -> BoundedSession:
        """A new session with what this source asks for; for one thread."""
        return BoundedSession(
            parse=parse,
            byte_cap=self.byte_cap,
            bearer_token_file=self.bearer_token_file,
            basic_auth=self.basic_auth,
            certificate_authority_file=self.certificate_authority_file,
            client_certificate=self.client_certificate,
            headers=self.headers,
        )


@dataclass(slots=True)
class _Call:
    """One query on its way through a thread. `session` is set while a thread works on it."""

    promql: str
    deadline: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    session: BoundedSession | None = None
    abandoned: bool = False

    def begin(self, session: BoundedSession) -> bool:
        with self.lock:
            self.session = session
            return not self.abandoned

    def end(self) -> None:
        with self.lock:
            self.session = None

    def abandon(self) -> None:
        with self.lock:
            self.abandoned = True
            if self.session is not None:
                self.session.abort()


class PrometheusSource:
    """A Prometheus, or anything with its query API. `outcomes` counts answers by `ok` or the reason they lack."""

    def __init__(self, config: SourceConfig, *, deadline_seconds: float) -> None:
        self.name = config.name
        self.outcomes: Counter[str] = Counter()
        self._config = config
        self._deadline_seconds = deadline_seconds
        self._silent_until = 0.0
        self._left_out = LeftOut()
        self._executor = ThreadPoolExecutor(THREADS_PER_SOURCE, thread_name_prefix=f"metrics-{config.name}")
        self._local = threading.local()
        self._sessions: list[BoundedSession] = []

    async def query(self, promql: str) -> Vector | Missing:
        """Evaluate one instant query now, within the deadline."""
        answer, about = await self._contained(promql), self._config.about
        if isinstance(answer, Missing):
            self.outcomes[answer.reason.value] += 1
            return replace(answer, detail=f"{about}: {answer.detail}")
        self.outcomes["ok"] += 1
        return replace(answer, warnings=tuple(f"{about}: {warning}" for warning in answer.warnings))

    def close(self) -> None:
        """Drop queued queries and connections; threads end with the answers they wait for."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for session in self._sessions:
            session.abort()
            session.close()

    async def _contained(self, promql: str) -> Vector | Missing:
        """Ask without the namespaces that make the answer too large, where the query can leave any out."""
        deadline, about_pods = time.monotonic() + self._deadline_seconds, without(promql, [""]) != promql
        while True:
            left_out = self._left_out.names() if about_pods else frozenset[str]()
            answer = await self._ask(without(promql, left_out), deadline)
            if not about_pods or not isinstance(answer, Vector | CutOff):
                return answer
            self._left_out.add(answer.overflowing)
            if isinstance(answer, Vector):
                return replace(answer, overflowing=answer.overflowing | left_out)
            # NB: another query may have added them meanwhile. Where nothing is new, an answer would be as large again.
            if self._left_out.names() == left_out or time.monotonic() >= deadline:
                return answer

    async def _ask(self, promql: str, deadline: float) -> Vector | Missing:
        now = time.monotonic()
        if now < self._silent_until:
            return Missing(Reason.THROTTLED, f"asked to wait {self._silent_until - now:.0f} s more (Retry-After)")
        call = _Call(promql, deadline)
        future = asyncio.get_running_loop().run_in_executor(self._executor, self._answer, call)
        try:
            return await asyncio.wait_for(future, deadline - now)
        except TimeoutError:
            return Missing(Reason.SOURCE_UNREACHABLE, f"no complete answer within {self._deadline_seconds:g} s")
        except RequestFailed as failure:
            # NB: another query that failed meanwhile, without such a wish, takes nothing back.
            self._silent_until = max(self._silent_until, time.monotonic() + failure.retry_after_seconds)
            return Missing(failure.reason, failure.detail)
        finally:
            call.abandon()

    def _answer(self, call: _Call) -> Vector | Missing:
        """Run in a thread."""
        client, session = self._client()
        remaining = call.deadline - time.monotonic()
        if not call.begin(session) or remaining <= 0:
            raise RequestFailed(Reason.SOURCE_UNREACHABLE, "every connection is busy")
        try:
            # NB: the client's own result has lost `warnings` and `resultType`; what it stumbles over is judged below.
            with contextlib.suppress(KeyError, TypeError, IndexError):
                client.custom_query(call.promql, timeout=remaining)
            answer: Vector | Missing = session.document
            return answer
        finally:
            call.end()

    def _client(self) -> tuple[PrometheusConnect, BoundedSession]:
        """The client of this thread; a `requests.Session` must not be shared between threads."""
        if not hasattr(self._local, "client"):
            session = self._config.session(read_vector)
            self._sessions.append(session)
            self._local.client = (PrometheusConnect(url=self._config.url.rstrip("/"), session=session), session)
        client: tuple[PrometheusConnect, BoundedSession] = self._local.client
        return client
