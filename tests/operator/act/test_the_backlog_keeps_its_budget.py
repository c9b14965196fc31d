"""The order and the pace of writes, for any sequence of them: priorities, budget, back-off, and nothing lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.act.backlog import (
    LEAST_BACK_OFF_SECONDS,
    MOST_BACK_OFF_SECONDS,
    Backlog,
    Budget,
    Key,
    Priority,
)

BUDGET = Budget(requests_per_second=5.0, burst=20, in_flight=8)
PRIORITIES = {f"{priority.name}-{i}": priority for priority in Priority for i in range(6)}
COSTS = {Priority.SCALE: 2, Priority.RENDER: 10, Priority.STATUS: 1, Priority.FIGURES: 1, Priority.EVENT: 2}

Steps = list[tuple[str, str, float]]
steps: st.SearchStrategy[Steps] = st.lists(
    st.tuples(
        st.sampled_from([*PRIORITIES]),
        st.sampled_from(["add", "add", "add", "start", "start", "succeed", "fail", "discard", "pause", "wait"]),
        st.floats(0.0, 10.0),
    ),
    max_size=150,
)


@dataclass
class Played:
    """A backlog, and what a script did to it."""

    backlog: Backlog = field(default_factory=lambda: Backlog(BUDGET, lambda: 0.5))
    now: float = 100.0
    wanted: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    sent: list[tuple[float, int, Priority]] = field(default_factory=list)
    silent_until: float = 0.0
    put_off: dict[str, float] = field(default_factory=dict)

    def play(self, script: Iterable[tuple[str, str, float]]) -> None:
        for name, action, seconds in script:
            self.step(name, action, seconds)

    def step(self, name: str, action: str, seconds: float) -> None:
        key, priority = Key(name, "write"), PRIORITIES[name]
        if action == "add":
            self.backlog.add(key, priority, COSTS[priority], self.now)
            self.wanted.add(name)
        elif action == "start":
            self.start()
        elif action == "discard":
            self.backlog.discard(key)
            self.wanted.discard(name)
        elif action == "pause":
            self.backlog.pause(self.now, seconds)
            self.silent_until = max(self.silent_until, self.now + seconds)
        elif action == "wait":
            self.now += seconds
        elif name in self.running:
            if action == "succeed":
                self.backlog.succeeded(key)
                self.put_off.pop(name, None)
            else:
                self.put_off[name] = self.now + self.backlog.failed(key, self.now)[1]
            self.backlog.ended(key, self.now)
            self.running.discard(name)

    def start(self) -> str | None:
        key = self.backlog.next(self.now)
        if key is None:
            return None
        priority = PRIORITIES[key.uid]
        assert key.uid in self.wanted, "what is discarded is not written"
        assert key.uid not in self.running, "one write of an object at a time"
        assert self.now >= self.silent_until, "nothing is sent into the silence"
        assert self.now >= self.put_off.get(key.uid, 0.0), "nothing is sent that is put off"
        may_go = {name for name in self.wanted - self.running if self.put_off.get(name, 0.0) <= self.now}
        assert priority == min(PRIORITIES[name] for name in may_go), "the most urgent first"
        self.wanted.discard(key.uid)
        self.running.add(key.uid)
        assert len(self.running) <= BUDGET.in_flight
        self.sent.append((self.now, COSTS[priority], priority))
        return key.uid


@given(steps)
def test_no_window_has_more_requests_than_the_budget_but_for_replicas(script: Steps) -> None:
    played = Played()
    played.play(script)
    for i, (begin, _, _) in enumerate(played.sent):
        total = 0
        for end, requests, priority in played.sent[i:]:
            total += requests if priority is not Priority.SCALE else 0
            assert total <= BUDGET.burst + BUDGET.requests_per_second * (end - begin) + 1e-6


def test_what_replicas_took_beyond_the_budget_the_others_wait_for() -> None:
    backlog = filled(Priority.SCALE, 100)
    while (key := backlog.next(0.0)) is not None:
        backlog.ended(key, 0.0)
    assert backlog.waiting() == [], "a place in flight is all that they need"
    backlog.add(Key("status", "write"), Priority.STATUS, 1, 0.0)
    missing = (100 - BUDGET.burst) + BUDGET.burst / 2 + 1

    assert backlog.next(0.99 * missing / BUDGET.requests_per_second) is None
    assert backlog.next(1.01 * missing / BUDGET.requests_per_second) is not None


def test_after_a_request_for_silence_replicas_keep_to_the_budget_too() -> None:
    backlog = filled(Priority.SCALE, 100)
    backlog.pause(0.0, 10.0)
    sent = []
    for tenth in range(200):
        now = tenth / 10
        while (key := backlog.next(now)) is not None:
            sent.append(now)
            backlog.ended(key, now)

    assert min(sent) >= 10.0
    assert len(sent) <= BUDGET.requests_per_second * 10.0 + 1


@given(steps)
def test_whatever_happened_everything_wanted_is_written_in_the_end(script: Steps) -> None:
    played = Played()
    played.play(script)
    for name in sorted(played.running):
        played.step(name, "succeed", 0.0)
    while played.wanted:
        name = played.start()
        if name is not None:
            played.step(name, "succeed", 0.0)
            continue
        wait = played.backlog.wait_seconds(played.now)
        assert wait is not None, f"{played.wanted} would wait for ever"
        played.now += max(wait, 1e-6)

    assert played.backlog.is_idle(played.now)
    assert played.backlog.waiting() == []


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40))
def test_the_back_off_doubles_within_its_bounds_and_a_success_ends_it(rolls: list[float]) -> None:
    dice = iter([*rolls, 0.0])
    backlog, key, now = Backlog(BUDGET, lambda: next(dice)), Key("a", "write"), 0.0
    for times in range(1, len(rolls) + 1):
        backlog.add(key, Priority.SCALE, 1, now)
        assert backlog.next(now) == key
        counted, seconds = backlog.failed(key, now)
        backlog.ended(key, now)
        longest = min(MOST_BACK_OFF_SECONDS, LEAST_BACK_OFF_SECONDS * 2 ** (times - 1))
        assert counted == times
        assert longest / 2 <= seconds <= longest
        assert backlog.is_put_off(key, now + seconds * 0.99)
        now += seconds + 1.0
        assert not backlog.is_put_off(key, now)
    assert backlog.failed(key, now, most_seconds=10.0)[1] <= 10.0
    backlog.succeeded(key)
    assert not backlog.is_put_off(key, 0.0)


def filled(priority: Priority, count: int) -> Backlog:
    backlog = Backlog(BUDGET, lambda: 0.0)
    for i in range(count):
        backlog.add(Key(f"{priority}-{i}", "write"), priority, 1, 0.0)
    return backlog


def test_statuses_leave_tokens_and_places_to_scaling() -> None:
    backlog = filled(Priority.STATUS, 100)
    started = 0
    while backlog.next(0.0) is not None:
        started += 1
    backlog.add(Key("urgent", "write"), Priority.SCALE, 3, 0.0)

    assert started == 6, "three quarters of the places"
    assert backlog.next(0.0) == Key("urgent", "write")


def test_after_a_silence_there_is_no_burst() -> None:
    backlog = filled(Priority.SCALE, 8)
    backlog.pause(0.0, 30.0)
    backlog.pause(1.0, 2.0)

    assert backlog.next(29.9) is None
    assert [backlog.next(at) is not None for at in (30.0, 30.1, 30.3, 30.35, 30.5)] == [False, False, True, False, True]


def test_what_waits_keeps_its_place_when_a_newer_one_comes() -> None:
    backlog = filled(Priority.STATUS, 3)
    first = Key(f"{Priority.STATUS}-0", "write")
    backlog.add(first, Priority.STATUS, 1, 0.0)

    assert backlog.next(0.0) == first
    assert len(backlog.waiting()) == 2


def test_figures_go_after_statuses_until_they_are_more() -> None:
    backlog = Backlog(Budget(), lambda: 0.0)
    for uid, priority in (("old", Priority.FIGURES), ("older", Priority.FIGURES), ("new", Priority.STATUS)):
        backlog.add(Key(uid, "status"), priority, 1, 0.0)
    backlog.add(Key("older", "status"), Priority.STATUS, 1, 0.0)
    backlog.add(Key("new", "status"), Priority.FIGURES, 1, 0.0)
    turns = [backlog.next(0.0) for _ in range(4)]

    assert turns == [Key("new", "status"), Key("older", "status"), Key("old", "status"), None]


def test_what_is_gone_is_forgotten() -> None:
    backlog = filled(Priority.STATUS, 3)
    backlog.keep_only({f"{Priority.STATUS}-1"})

    assert [key.uid for key in backlog.waiting()] == [f"{Priority.STATUS}-1"]
