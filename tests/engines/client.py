"""Clients of a real server, which know what they sent and what became of it."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

TIMEOUT_SECONDS = 300.0
"""Time that the last of many may wait on a busy machine."""


@dataclass
class Client:
    """Sends requests to one model, from as many threads as it likes; keeps when each was sent and what became of it."""

    url: str
    sent: list[float] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)
    """Times to the first line of each answer."""
    served: int = 0
    failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def send(self, **inputs: object) -> None:
        request = urllib.request.Request(self.url, data=json.dumps(inputs).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        began = time.monotonic()
        with self._lock:
            self.sent.append(began)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                first = answer.readline()
                self.first_seconds.append(time.monotonic() - began)
                answer.read()
        except (OSError, http.client.HTTPException):  # an answer that breaks off is the latter
            outcome = "failed"
        else:
            # NB: what is refused after the stream has begun is an event of it.
            outcome = "failed" if first.startswith(b'data: {"error"') else "served"
        with self._lock:
            setattr(self, outcome, getattr(self, outcome) + 1)

    def sent_per_second(self, seconds: float) -> float:
        """Rate of the last seconds."""
        now = time.monotonic()
        return sum(at > now - seconds for at in list(self.sent)) / seconds

    @contextmanager
    def at_a_rate(self, per_second: float, **inputs: object) -> Iterator[None]:
        """Requests at even distances, whether or not those before were answered."""

        def pace() -> None:
            due = time.monotonic()
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                due += 1 / per_second
                self._begin(lambda: self.send(**inputs))

        yield from self._while(lambda: self._begin(pace))

    @contextmanager
    def with_clients(self, many: int, **inputs: object) -> Iterator[None]:
        """Clients that each send the next request when they have their answer."""

        def work() -> None:
            while not self._stop.is_set():
                self.send(**inputs)

        yield from self._while(lambda: [self._begin(work) for _ in range(many)])

    @contextmanager
    def all_at_once(self, many: int, **inputs: object) -> Iterator[None]:
        """So many requests, each sent once."""
        yield from self._while(lambda: [self._begin(lambda: self.send(**inputs)) for _ in range(many)])

    def _begin(self, work: object) -> None:
        thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _while(self, begin: object) -> Iterator[None]:
        self._stop.clear()
        begin()  # type: ignore[operator]
        try:
            yield
        finally:
            self._stop.set()
            for thread in list(self._threads):
                thread.join(TIMEOUT_SECONDS)
            self._threads.clear()


def shown(page_url: str, name: str) -> float:
    """The sum of a counter of a metrics page over all its labels."""
    with urllib.request.urlopen(page_url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{re.escape(name)}[ {{]", line))
