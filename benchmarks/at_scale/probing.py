"""Probes of the operator's health as a kubelet sends them, from a thread: the answer and how long it took."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

import urllib3

INTERVAL_SECONDS = 2.0
TIMEOUT_SECONDS = 15.0
REFUSED = 0
"""Stands for the status of a probe that got no answer."""


@dataclass(frozen=True, slots=True)
class Health:
    """Answers of the probes of a while: how many there were by HTTP status, and the slowest one."""

    answers: dict[str, int]
    slowest_seconds: float

    @property
    def others_than_200(self) -> int:
        """Probes that a kubelet would count as failed."""
        return sum(count for status, count in self.answers.items() if status != "200")


class Probes:
    """Asks `/healthz` until it is stopped."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/healthz"
        self._seen: list[tuple[float, int, float]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()

    def health(self, since: float, until: float) -> Health:
        """Answers of the probes that were sent in this time of the monotonic clock."""
        seen = [(status, seconds) for at, status, seconds in self._seen if since <= at <= until]
        answers = Counter(str(status) for status, _ in seen)
        return Health(dict(sorted(answers.items())), max((seconds for _, seconds in seen), default=0.0))

    def _run(self) -> None:
        pool = urllib3.PoolManager(timeout=TIMEOUT_SECONDS, retries=False)
        while not self._stopping.wait(INTERVAL_SECONDS):
            sent = time.monotonic()
            try:
                status = pool.request("GET", self._url).status
            except urllib3.exceptions.HTTPError:
                status = REFUSED
            self._seen.append((sent, status, time.monotonic() - sent))
