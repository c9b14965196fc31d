"""End of a pod: how long the requests that it has may take until they are broken off.

Worked, for a grace period of 60 s and an endpoint that is removed within 10 s:

| `preStop` sleeps | limit of the server's own | the last request that comes has |
|---|---|---|
| 5 s | none | 55 s: until the pod is killed |
| 5 s | 45 s | 45 s |
| 5 s | 0 s | 0 s |
| 55 s | 0 s | 45 s: it came in the first 10 s, and the server is asked to stop after 55 s |
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.runtimes.settings import Drain

ENDPOINT_REMOVAL_SECONDS = 10
"""The endpoint of a pod is removed while it is being stopped: so long it still gets requests."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Times of a pod that ends, in seconds."""

    grace_seconds: float
    """Time from the request that it ends to its being killed."""
    sleep_seconds: float | None = 0.0
    """Time from that request until its server is asked to stop; None: what it does before cannot be read."""
    drain: Drain | None = None
    """Limit of the server's own; None: it has none, or it is not known."""

    @property
    def sleeps_seconds(self) -> float:
        """Time before its server is asked to stop, as far as it is known."""
        return min(self.sleep_seconds or 0.0, self.grace_seconds)

    @property
    def server_ends_seconds(self) -> float | None:
        """Time after which the server breaks off what is left; None: it does not, or not that is known."""
        if self.drain is None or self.sleep_seconds is None:
            return None
        return self.sleeps_seconds + self.drain.seconds

    @property
    def after_last_request_seconds(self) -> float:
        """Time at which its last request comes, later than which its endpoint is surely gone."""
        return min(self.sleeps_seconds, ENDPOINT_REMOVAL_SECONDS)

    @property
    def answer_seconds(self) -> float:
        """Time that the last request which it gets may take."""
        server = self.server_ends_seconds
        ends = self.grace_seconds if server is None else min(self.grace_seconds, server)
        return ends - self.after_last_request_seconds
