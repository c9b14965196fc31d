"""The election, played in simulated time: clocks that drift, answers that come late or never, pauses, partitions.

The real `Elector` runs against a Lease of its own; what it awaits is answered when the simulation says so.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.act.errors import ClusterError, Conflict, NotFound, Unavailable
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.run.election import (
    LEASE_SECONDS,
    RENEW_DEADLINE_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    Elector,
)
from tests.fixtures.hypothesis_scale import examples

Json = dict[str, Any]
Request = Callable[[], Json]
"""Reaction of the server when a request arrives; raises `ClusterError`."""


class Server:
    """One Lease, changed as an API server changes it: whole, and only from the version that the writer names."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.versions = itertools.count(1)

    def read(self) -> Json:
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    def create(self, manifest: Json) -> Json:
        if self.lease is not None:
            raise Conflict("there is one")
        return self._store(manifest["spec"])

    def patch(self, patch: Json) -> Json:
        if self.read()["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"]:
            raise Conflict("another version")
        return self._store(self.read()["spec"] | patch["spec"])

    def _store(self, spec: Json) -> Json:
        self.lease = {"metadata": {"resourceVersion": str(next(self.versions))}, "spec": dict(spec)}
        return self.lease


@coroutine
def sent(request: Request) -> Generator[Request, Json, Json]:
    """Hand a request to the simulation; comes back with its answer."""
    return (yield request)


class Client:
    """Client that an `Elector` calls, with the simulation in between."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def read(self, ref: ObjectRef) -> Json:
        return await sent(self._server.read)

    async def create(self, manifest: Json) -> Json:
        return await sent(lambda: self._server.create(manifest))

    async def patch(self, ref: ObjectRef, patch: Json) -> Json:
        return await sent(lambda: self._server.patch(patch))


class Candidate:
    """One operator with a clock of its own. `paused_until`: it does nothing before, and its clock goes on."""

    def __init__(self, world: World, name: str, rate: float, offset: float) -> None:
        self.world, self.name, self.rate, self.offset = world, name, rate, offset
        client = cast(KubernetesCluster, Client(world.server))
        self.elector = Elector(client, "ns", "lease", name, self.clock)
        self.partitioned, self.alive = False, True
        self.paused_until = 0.0
        self.writes_end = -math.inf
        """End of the last write that it could have begun, in true time."""

    def clock(self) -> float:
        return self.offset + self.rate * self.world.now

    def begin(self) -> None:
        """Begin an attempt, and the next ones after it."""
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, self.begin)
        elif self.alive:
            self.resume(self.elector.try_once())

    def resume(self, attempt: Coroutine[Any, Any, float], answer: Json | ClusterError | None = None) -> None:
        """Go on with an attempt until it asks for something or ends."""
        if not self.alive:
            attempt.close()
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self.resume(attempt, answer))
            return
        try:
            request = attempt.throw(answer) if isinstance(answer, ClusterError) else attempt.send(answer)
        except StopIteration as ended:
            self.world.check()
            if self.elector.deposed:
                self.world.deposed.append(self.name)
                self.world.at(self.world.now + 1.0, lambda: restart(self.world, self))
            else:
                self.world.at(self.world.now + ended.value / self.rate, self.begin)
            return
        self.world.carry(self, request, lambda got: self.resume(attempt, got))


class World:
    """Candidates, the server between them, and the true time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.server = Server()
        self.candidates: list[Candidate] = []
        self.now = 0.0
        self.slowest_seconds = 0.0
        """Longest way of a request or of an answer."""
        self.led: set[str] = set()
        self.deposed: list[str] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), act))

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, act = heapq.heappop(self._due)
            act()
        self.now = until
        self.check()

    def carry(self, who: Candidate, request: Request, back: Callable[[Json | ClusterError], None]) -> None:
        """Bring a request to the server and its answer back, each late or not at all; the client gives up in time."""
        there, home = (self.random.random() ** 3 * self.slowest_seconds for _ in range(2))
        gives_up = self.now + REQUEST_SECONDS / who.rate
        answered = False

        def answer(got: Json | ClusterError) -> None:
            nonlocal answered
            if not answered:
                answered = True
                back(got)

        def arrive() -> None:
            # NB: also one that the client gave up: what is under way can still be applied.
            got: Json | ClusterError
            try:
                got = request()
            except ClusterError as error:
                got = error
            if not who.partitioned:
                self.at(self.now + home, lambda: answer(got))

        if not who.partitioned:
            self.at(self.now + there, arrive)
        self.at(gives_up, lambda: answer(Unavailable("timeout")))

    def check(self) -> None:
        """At most one leads, and it began after every write that another one could have begun was over."""
        leading = [each for each in self.candidates if each.alive and each.elector.leads()]
        assert len(leading) <= 1, [each.name for each in leading]
        for each in leading:
            if each.name not in self.led:
                others = [other for other in self.candidates if other is not each]
                assert all(other.writes_end <= self.now for other in others)
            each.writes_end = max(each.writes_end, self.now + each.elector.write_seconds() / each.rate)
        self.led = {each.name for each in leading}


def play(seed: int, rates: list[float], minutes: float) -> World:
    """Two candidates, and what may happen to them, drawn from the seed."""
    world = World(seed)
    draw = world.random
    world.candidates = [Candidate(world, f"op-{n}", rate, draw.uniform(0, 1e6)) for n, rate in enumerate(rates)]
    for candidate in world.candidates:
        world.at(draw.uniform(0, 30), candidate.begin)
    end = 60.0 * minutes
    while (step := draw.uniform(0.5, 30.0)) and world.now < end:
        world.run(world.now + step)
        world.slowest_seconds = draw.choice((0.01, 0.5, 4.0, 12.0))
        candidate = draw.choice(world.candidates)
        happens = draw.randrange(4)
        if happens == 0:
            candidate.partitioned = not candidate.partitioned
        elif happens == 1:
            candidate.paused_until = max(candidate.paused_until, world.now + draw.choice((1.0, 15.0, 60.0, 180.0)))
        elif happens == 2 and draw.random() < 0.2:
            restart(world, candidate)
    return world


def restart(world: World, candidate: Candidate) -> None:
    """A process that ends, in the middle of whatever it does, and another one in its place."""
    if not candidate.alive:
        return
    candidate.alive = False
    successor = Candidate(world, f"{candidate.name}'", candidate.rate, world.random.uniform(0, 1e6))
    world.candidates = [successor if each is candidate else each for each in world.candidates]
    # What the old one began may still be under way.
    successor.writes_end = candidate.writes_end
    world.led.discard(candidate.name)
    successor.begin()


RATES = st.lists(st.floats(0.99, 1.01), min_size=2, max_size=2)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32), rates=RATES)
def test_two_never_both_lead_and_one_leads_again_when_it_is_over(seed: int, rates: list[float]) -> None:
    world = play(seed, rates, minutes=10)
    world.slowest_seconds = 0.05
    for candidate in world.candidates:
        candidate.partitioned = False
    world.run(max(world.now, *(candidate.paused_until for candidate in world.candidates)))
    # A call that was lost in the partition is given up, the next attempt sees the Lease, and after its time takes it.
    world.run(world.now + (REQUEST_SECONDS + 2 * RETRY_SECONDS + LEASE_SECONDS) * 1.02 + 1)

    assert len(world.led) == 1


def alone(*names: str) -> World:
    world = World(0)
    world.slowest_seconds = 0.01
    world.candidates = [Candidate(world, name, 1.0, 0.0) for name in names]
    for number, candidate in enumerate(world.candidates):
        world.at(number * RETRY_SECONDS / 2, candidate.begin)
    return world


def test_the_first_one_leads_at_once() -> None:
    world = alone("a")
    world.run(0.1)

    assert world.led == {"a"}
    assert world.server.read()["spec"]["holderIdentity"] == "a"


def test_one_that_was_killed_is_followed_within_the_lease_and_one_attempt() -> None:
    world = alone("a", "b")
    world.run(60.0)
    (leader,) = (each for each in world.candidates if each.name in world.led)
    leader.alive = False
    world.run(60.0 + LEASE_SECONDS - RETRY_SECONDS - 0.1)
    assert not world.led
    world.run(60.0 + LEASE_SECONDS + RETRY_SECONDS + 0.1)

    assert len(world.led) == 1


def test_an_outage_of_the_api_server_changes_no_leader() -> None:
    world = alone("a", "b")
    world.run(61.5)
    before = set(world.led)
    for candidate in world.candidates:
        candidate.partitioned = True
    world.run(61.5 + RENEW_DEADLINE_SECONDS + 0.1)
    assert not world.led
    world.run(120.0)
    # The one that stood by comes back first, and could take what was not renewed for so long.
    for candidate in sorted(world.candidates, key=lambda each: each.name in before):
        candidate.partitioned = False
        world.run(world.now + REQUEST_SECONDS + RETRY_SECONDS)

    assert world.led == before
    assert world.server.read()["spec"]["leaseTransitions"] == 0


def test_one_that_was_stopped_for_longer_than_the_lease_writes_nothing_and_is_deposed() -> None:
    world = alone("a", "b")
    world.run(60.0)
    (leader,) = (each for each in world.candidates if each.name in world.led)
    leader.paused_until = 240.0
    world.run(239.9)
    assert world.led
    assert leader.name not in world.led
    assert leader.elector.write_seconds() == 0
    world.run(250.0)

    assert world.deposed == [leader.name]


def test_one_that_led_and_finds_that_another_led_since_is_deposed_also_when_that_one_gave_it_back() -> None:
    world = alone("a", "b")
    world.run(60.0)
    leader, other = sorted(world.candidates, key=lambda each: each.name not in world.led)
    leader.paused_until = 120.0
    world.run(119.0)
    spec = world.server.read()["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == (other.name, 1)
    other.alive, other.writes_end = False, world.now
    world.server.patch(world.server.read() | {"spec": {"holderIdentity": None}})
    world.run(125.0)

    assert world.deposed == [leader.name]


def test_a_lease_that_is_deleted_by_hand_is_made_again_by_the_leader() -> None:
    world = alone("a", "b")
    world.run(60.0)
    before = set(world.led)
    world.server.lease = None
    world.run(65.0)

    assert world.led == before
    assert world.server.read()["spec"]["holderIdentity"] in before


@pytest.mark.parametrize("seconds", [3.0, 5.0])
def test_a_slow_api_server_does_not_cost_the_lead(seconds: float) -> None:
    world = alone("a")
    world.run(10.0)
    world.random.random = lambda: 1.0  # type: ignore[method-assign]
    world.slowest_seconds = seconds / 2
    for moment in range(11, 120):
        world.run(float(moment))
        assert world.led == {"a"}
