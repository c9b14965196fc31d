"""Election of the operator that writes: the one that a Lease names.

Expiry is judged as client-go judges it, by changes of the Lease that were seen here, on a clock of this machine: times
that another machine wrote are never compared with.

    the leader     sends a renewal ── may write ── 12 s ── writes nothing ────────── goes on where it is still named
    the next one         └─ sees it ───────────────────────────── 20 s unchanged ── takes it

A leader that cannot renew stops before another may take over, and stays: only a Lease that names another deposes it.
An operator that could not read for so long that the leader may not have been able to renew either waits anew, so that
an outage of the API server changes no leader.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.objects import Json

logger = logging.getLogger(__name__)

LEASE_SECONDS = 20.0
RENEW_DEADLINE_SECONDS = 12.0
RETRY_SECONDS = 2.0
REQUEST_SECONDS = RENEW_DEADLINE_SECONDS / 2
"""Deadline of one call, so that a renewal can be tried again in time."""
RELEASE_SECONDS = 3.0
CLOCK_RATES_DIFFER_BY = 0.02
"""Two clocks, each of which may be wrong by 1 %."""
LEASE_API = "coordination.k8s.io/v1"


def clock() -> float:
    """Seconds that go on while the process is stopped and, where the system can tell, while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Lease:
    """The Lease as the API server showed it. Without a holder it was given back."""

    version: str
    holder: str
    transitions: int


class Election:
    """Knowledge of one candidate. Pure: times are seconds of its own clock."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.lease: Lease | None = None
        """Lease as it was last read or written; None: there is none."""
        self._read_seconds: float | None = None
        self._unchanged_since_seconds = 0.0
        self._term: int | None = None
        """The transitions of the Lease when it was ours; None: it never was."""
        self._renewed_seconds = -math.inf
        """Time at which the last renewal that was taken was sent."""

    @property
    def deposed(self) -> bool:
        """True where this one led, and another one since."""
        if self._term is None or self.lease is None:
            return False
        return self.lease.holder not in ("", self.identity) or self.lease.transitions != self._term

    def leads(self, now_seconds: float) -> bool:
        """Tell whether this one may write now."""
        return now_seconds - self._renewed_seconds < RENEW_DEADLINE_SECONDS and not self.deposed

    def write_seconds(self, now_seconds: float) -> float:
        """Time that a write which begins now may be under way: until another may take the Lease; 0: do not begin."""
        if not self.leads(now_seconds):
            return 0.0
        return self._renewed_seconds + LEASE_SECONDS * (1 - CLOCK_RATES_DIFFER_BY) - now_seconds

    def saw(self, lease: Lease | None, now_seconds: float) -> None:
        """Take note of what was read. `now_seconds`: when the answer was there."""
        read, self._read_seconds = self._read_seconds, now_seconds
        if read is None and lease is None:
            self._unchanged_since_seconds = -math.inf  # There never was a leader.
        elif read is None or lease != self.lease or now_seconds - read > RENEW_DEADLINE_SECONDS:
            self._unchanged_since_seconds = now_seconds
        self.lease = lease

    def may_take(self, now_seconds: float) -> bool:
        """Tell whether the Lease is this one's to write: held, given back, or not renewed for its whole time."""
        if self.deposed:
            return False
        if self.lease is None and self.leads(now_seconds):
            return True  # Deleted by hand: another one waits before it makes a new one.
        if self.lease is not None and self.lease.holder in ("", self.identity):
            return True
        return now_seconds - self._unchanged_since_seconds >= LEASE_SECONDS

    def next_seconds(self, now_seconds: float) -> float:
        """Wait before the next attempt, after one that began now: the usual one, or until the Lease runs out."""
        expires = self._unchanged_since_seconds + LEASE_SECONDS - now_seconds
        return expires if 0 < expires < RETRY_SECONDS else RETRY_SECONDS

    def took(self, lease: Lease, sent_seconds: float) -> None:
        """Take note of our own write that the server took. `sent_seconds`: when it was sent, which is before that."""
        self.lease, self._renewed_seconds, self._term = lease, sent_seconds, lease.transitions

    def resign(self) -> None:
        """Lead no more."""
        self._renewed_seconds = -math.inf


class Elector:
    """Runs for the Lease of this name, and renews it. `cluster`: with a deadline of `REQUEST_SECONDS`."""

    def __init__(
        self, cluster: KubernetesCluster, namespace: str, name: str, identity: str, now: Callable[[], float] = clock
    ) -> None:
        self._cluster, self._now = cluster, now
        self._ref = ObjectRef(LEASE_API, "Lease", namespace, name)
        self._election = Election(identity)
        self._is_known = False
        """True where our last write was the last of all, as far as we know: then the next one need not read first."""
        self._problem = ""

    def leads(self) -> bool:
        """Tell whether this process may write now."""
        return self._election.leads(self._now())

    def write_seconds(self) -> float:
        """Time that a write which begins now may be under way; 0: it must not begin."""
        return self._election.write_seconds(self._now())

    @property
    def deposed(self) -> bool:
        """True where this process led, and another one since."""
        return self._election.deposed

    @property
    def says(self) -> str:
        """Name the leader, in a few words."""
        holder = self._election.lease.holder if self._election.lease else ""
        if holder != self._election.identity:
            return f"standing by; {holder or 'no process'} leads"
        return "leading" if self.leads() else "the lease could not be renewed; writing nothing"

    async def run(self) -> None:
        """Take the Lease when it is free, and renew it; returns when the Lease, once ours, names another."""
        while not self.deposed:
            led = self.leads()
            wait = await self.try_once()
            if self.leads() and not led:
                logger.info("%s leads", self._election.identity)
            await asyncio.sleep(wait)
        holder = self._election.lease.holder if self._election.lease else ""
        logger.error("%s leads now; this process ends", holder or "another operator")

    async def try_once(self) -> float:
        """Take or renew the Lease where it is ours to; for how long to wait before the next attempt.

        Never raises `ClusterError`.
        """
        began = self._now()
        try:
            await self._attempt()
        except ClusterError as error:
            if str(error) != self._problem:
                logger.warning("lease %s: %s", self._ref.name, error)
            self._problem = str(error)
        else:
            self._problem = ""
        return max(0.0, began + self._election.next_seconds(began) - self._now())

    async def release(self) -> None:
        """Give the Lease back, so that the next one need not wait. Nothing may be written any more."""
        self._election.resign()
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = await self._read()
                if lease is not None and lease.holder == self._election.identity:
                    await self._patch(lease, {"holderIdentity": None})
        except (ClusterError, TimeoutError) as error:
            logger.warning("lease %s not given back: %s", self._ref.name, error)

    async def _attempt(self) -> None:
        election = self._election
        if not self._is_known:
            lease = await self._read()
            election.saw(lease, self._now())
            if not election.may_take(self._now()):
                return
        sent, self._is_known = self._now(), False
        election.took(await self._write(election.lease), sent)
        self._is_known = True

    async def _read(self) -> Lease | None:
        try:
            return _lease(await self._cluster.read(self._ref))
        except NotFound:
            return None

    async def _write(self, lease: Lease | None) -> Lease:
        """Raises `Conflict` where another one was faster."""
        identity, now = self._election.identity, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if lease is not None and lease.holder == identity:
            return await self._patch(lease, {"renewTime": now})
        spec = {"holderIdentity": identity, "leaseDurationSeconds": round(LEASE_SECONDS), "acquireTime": now,
                "renewTime": now, "leaseTransitions": 0 if lease is None else lease.transitions + 1}  # fmt: skip
        if lease is not None:
            return await self._patch(lease, spec)
        metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
        made = {"apiVersion": LEASE_API, "kind": "Lease", "metadata": metadata, "spec": spec}
        return _lease(await self._cluster.create(made))

    async def _patch(self, lease: Lease, spec: Json) -> Lease:
        body = {"metadata": {"resourceVersion": lease.version}, "spec": spec}
        return _lease(await self._cluster.patch(self._ref, body))


def _lease(document: Json) -> Lease:
    spec = document.get("spec") or {}
    return Lease(
        version=document["metadata"]["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        transitions=spec.get("leaseTransitions") or 0,
    )
