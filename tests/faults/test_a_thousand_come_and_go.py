"""A thousand resources made and deleted within seconds, and resources that come and go without an end.

Every one is sized, the API server is asked for no more than the budget allows, and nothing is kept of what is gone.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as sync_client

from firsttoken_operator.act.backlog import Budget
from firsttoken_operator.act.render import LISTS_AT_ONCE
from tests.faults.actions import Delay
from tests.faults.proxy import Entry
from tests.faults.stage import Stage, staged
from tests.operator.act.objects import infd
from tools.cluster import Cluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault, pytest.mark.timeout(1500)]

THOUSAND = 1000
QUESTIONS = 40
"""So many different sizes are asked for: those that ask the same are answered together."""
COLLECTION = ("firsttoken.dev", "v1alpha1", "default", "inferencedeployments")
BUDGET = Budget()
WINDOW_SECONDS = 10.0
PER_RESOURCE = 4
"""Writes of one resource at most: it was seen, it was sized, and what its target is like."""
MEBIBYTE = 2**20
CHURN_PER_SECOND = 12.0
HOUR_OF_CHURN, HOUR_OF_TICKS = 3600, 240
"""Resources that come and go in an hour at one a second, and ticks of production in it."""
MOST_GROWTH_BYTES = 1024.0
"""Growth for each of them that a process may seem to have: 3.5 MiB in that hour. Events that were kept took 1,700."""


class Crowd:
    """Resources of which the targets are not there."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = sync_client.CustomObjectsApi(cluster.client)

    def make(self, names: Iterable[str]) -> None:
        """All of them, eight at a time."""
        self._each(lambda pair: self._api.create_namespaced_custom_object(*COLLECTION, named(*pair)), enumerate(names))

    def delete(self, names: Iterable[str]) -> None:
        """The same."""
        self._each(lambda name: self._api.delete_namespaced_custom_object(*COLLECTION, name), names)

    def sized(self) -> int:
        """Number of those that know their size."""
        listed = self._api.list_namespaced_custom_object(*COLLECTION)["items"]
        return sum("replicasForDeclaredPeak" in item.get("status", {}).get("sizing", {}) for item in listed)

    @staticmethod
    def _each(do: Any, of: Iterable[Any]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(do, of))


def named(number: int, name: str) -> dict[str, Any]:
    """One of the crowd."""
    traffic = {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": str(100 + number % QUESTIONS)}
    return infd(name, targetRef={"name": f"of-{name}"}, traffic=traffic)


def memory_bytes(stage: Stage) -> int:
    """Bytes that the process has in memory."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{stage.process.child.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def open_files(stage: Stage) -> int:
    return len(list(Path(f"/proc/{stage.process.child.pid}/fd").iterdir()))


def busiest(entries: list[Entry]) -> int:
    """The largest number of requests within `WINDOW_SECONDS`."""
    times, first, most = sorted(entry.began_seconds for entry in entries), 0, 0
    for last, at in enumerate(times):
        while at - times[first] > WINDOW_SECONDS:
            first += 1
        most = max(most, last - first + 1)
    return most


def most_at_once(entries: list[Entry]) -> int:
    """The largest number of requests, but for watches, that were under way together."""
    asked = [entry for entry in entries if not entry.is_watch and entry.ended_seconds is not None]
    steps = [(entry.began_seconds, 1) for entry in asked] + [(entry.ended_seconds or 0.0, -1) for entry in asked]
    return max(itertools.accumulate(step for _, step in sorted(steps)))


@contextmanager
def attended(stage: Stage) -> Iterator[list[str]]:
    """Problems of which /healthz tells inside the block: a decision that is older than three intervals is one."""
    problems, stop = list[str](), threading.Event()

    def look() -> None:
        while not stop.wait(1.0):
            status, text = stage.process.get("healthz")
            if status == HTTPStatus.SERVICE_UNAVAILABLE:
                problems.append(text)

    thread = threading.Thread(target=look, name="healthz", daemon=True)
    thread.start()
    try:
        yield problems
    finally:
        stop.set()
        thread.join(10)


def series(stage: Stage, text: str) -> list[str]:
    """Samples of /metrics that have it."""
    lines = stage.process.get("metrics")[1].splitlines()
    return [line for line in lines if text in line and not line.startswith("#")]


def forgotten(stage: Stage, word: str) -> bool:
    """Tell whether nothing is kept of resources that are gone, as far as the metrics tell."""
    told = series(stage, "firsttoken_")
    waiting = [line for line in told if line.startswith(("firsttoken_sizings_waiting", "firsttoken_writes_waiting"))]
    is_idle = all(float(line.split()[-1]) == 0 for line in waiting)
    # NB: a process that did not answer in time has told nothing.
    return bool(waiting) and is_idle and not any(f'name="{word}-' in line for line in told)


def storm(stage: Stage, crowd: Crowd, word: str) -> tuple[list[Entry], str]:
    """A thousand are made, sized and deleted; the requests meanwhile, and how long all that took."""
    names, before, began = [f"{word}-{i:04}" for i in range(THOUSAND)], len(stage.proxy.log), time.monotonic()
    crowd.make(names)
    made = time.monotonic()
    wait_until(lambda: crowd.sized() >= THOUSAND, 600, "all of them sized", poll_seconds=3)
    sized = time.monotonic()
    crowd.delete(names)
    deleted = time.monotonic()
    wait_until(lambda: forgotten(stage, word), 120, "nothing kept of them", poll_seconds=1)
    marks = [began, made, sized, deleted, time.monotonic()]
    times = [f"{after - before:.0f}" for before, after in itertools.pairwise(marks)]
    return stage.proxy.since(before), "made, sized, deleted, forgotten in {} s".format(" + ".join(times))


def test_every_one_is_sized_and_nothing_is_kept_of_a_thousand_that_are_gone(stage: Stage) -> None:
    stage.settle()
    crowd = Crowd(stage.cluster)
    storm(stage, crowd, "first")
    kept = memory_bytes(stage)
    entries, took = storm(stage, crowd, "second")
    grown = (memory_bytes(stage) - kept) / MEBIBYTE
    writes = [entry for entry in entries if entry.is_write and "/leases/" not in entry.path]
    print(f"{took}; {len(writes)} writes, {busiest(writes)} in {WINDOW_SECONDS:.0f} s; {grown:+.1f} MiB")

    assert busiest(writes) <= BUDGET.requests_per_second * WINDOW_SECONDS + BUDGET.burst
    assert len(writes) <= PER_RESOURCE * THOUSAND
    assert grown < 20, "the second thousand took memory that the first had not left"
    stage.assert_alive()


def test_one_that_was_there_before_waits_for_none_of_a_thousand(stage: Stage) -> None:
    stage.settle()
    stage.declare("before", 2)
    crowd, names = Crowd(stage.cluster), [f"third-{i:04}" for i in range(THOUSAND)]
    crowd.make(names)
    began = len(stage.proxy.log)
    try:
        stage.change("before", minReplicas=3)
        stage.until("before", 3, 120)
        (scaled,) = stage.scale_writes("before", began)
        overtaken = [e for e in stage.proxy.since(began) if e.is_write and e.number < scaled.number]
        # NB: how long it takes is the machine's affair, as a tick of a thousand is: what counts is who goes first.
        print(
            f"{len(overtaken)} writes before it, in {scaled.began_seconds - stage.proxy.log[began].began_seconds:.1f} s"
        )
        assert len(overtaken) < THOUSAND / 2
    finally:
        crowd.delete(names)
    wait_until(lambda: forgotten(stage, "third"), 120, "nothing kept of them", poll_seconds=1)
    stage.assert_alive()


def test_with_5_seconds_more_for_every_call_a_scale_up_waits_for_no_status_of_hundreds(
    control_plane: Path, tmp_path: Path
) -> None:
    # NB: at the tick of production, whose length is the deadline of a write: reading and writing take 10 s here.
    with staged(tmp_path, "--tick-seconds", "15") as slow:
        slow.declare("slow", 2)
        crowd, names = Crowd(slow.cluster), [f"fourth-{i:03}" for i in range(THOUSAND // 2)]
        began = time.monotonic()
        number = len(slow.proxy.log)
        with slow.proxy.injecting(Delay(5.0), watch=False), attended(slow) as problems:
            crowd.make(names)
            asked = time.monotonic()
            slow.change("slow", minReplicas=3)
            slow.until("slow", 3, 90)
            scaled = time.monotonic()
            wait_until(lambda: crowd.sized() >= len(names), 600, "all of them told of their size", poll_seconds=3)
        lag = sum(float(line.split()[1]) for line in series(slow, "firsttoken_decision_lag_seconds_sum"))
        at_once = most_at_once(slow.proxy.since(number))
        print(f"scaled after {scaled - asked:.0f} s, all told after {time.monotonic() - began:.0f} s; "
              f"decisions were {lag:.1f} s late in all, {at_once} requests at once")  # fmt: skip

        assert problems == [], "no decision on any of them was older than three intervals"
        assert at_once <= BUDGET.in_flight + LISTS_AT_ONCE
        assert lag > 0
        crowd.delete(names)
        wait_until(lambda: forgotten(slow, "fourth"), 120, "nothing kept of them", poll_seconds=1)
        slow.assert_alive()


class Churn:
    """Resources of which one comes and one goes at a time, twenty at once."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd, self._stop, self.number = crowd, threading.Event(), 0

    def run(self) -> None:
        """Until it is stopped, and then those that are left go, too."""
        while not self._stop.wait(1 / CHURN_PER_SECOND):
            self._crowd.make([f"churn-{self.number}"])
            if self.number >= 20:
                self._crowd.delete([f"churn-{self.number - 20}"])
            self.number += 1
        self._crowd.delete([f"churn-{last}" for last in range(max(0, self.number - 20), self.number)])

    def __enter__(self) -> Churn:
        self._thread = threading.Thread(target=self.run, name="churn", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def test_hours_of_coming_and_going_leave_no_memory_and_no_connection(stage: Stage) -> None:
    stage.settle()
    seen = []
    with Churn(Crowd(stage.cluster)) as churn:
        # What is allocated once is there by then.
        wait_until(lambda: churn.number > HOUR_OF_CHURN / 4, 300, "resources that come and go", poll_seconds=1)
        first, ticks = churn.number, stage.process.ticks()
        while churn.number - first < HOUR_OF_CHURN or stage.process.ticks() - ticks < HOUR_OF_TICKS:
            seen.append((float(churn.number), float(memory_bytes(stage)), open_files(stage)))
            time.sleep(2)
    growth = slope([(number, memory) for number, memory, _ in seen])
    files = [count for *_, count in seen]
    print(f"{len(seen) * 2} s and more: {seen[0][1] / MEBIBYTE:.1f} to {seen[-1][1] / MEBIBYTE:.1f} MiB, "
          f"{growth:+.0f} bytes a resource; {min(files)} to {max(files)} files")  # fmt: skip

    assert growth < MOST_GROWTH_BYTES
    assert max(files[len(files) // 2 :]) <= max(files[: len(files) // 2]) + 5
    wait_until(lambda: forgotten(stage, "churn"), 60, "nothing kept of them")
    stage.assert_alive()


def slope(points: list[tuple[float, float]]) -> float:
    """Slope of the straight line through the points (Theil and Sen: the median of all, which no single jump moves)."""
    slopes = sorted((b - a) / (t - s) for (s, a), (t, b) in itertools.combinations(points, 2) if t > s)
    return slopes[len(slopes) // 2]
