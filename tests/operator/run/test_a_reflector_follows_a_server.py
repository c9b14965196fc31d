"""The list and the watch of what a cluster has by the ten thousand: complete, in pages, and never ahead of a gap."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act import objects
from firsttoken_operator.act.errors import ClusterError, NotFound, Rejected, Throttled, Unavailable
from firsttoken_operator.run import reflector
from firsttoken_operator.run.reflector import Reflector
from firsttoken_operator.run.watches import WATCHED, Watched

PODS = next(kind for kind in WATCHED if kind.kind == "Pod")
GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
Event = dict[str, Any]


def pod(uid: str, version: int = 1, **more: Any) -> Event:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}, **more}


def event(told: str, uid: str, version: int) -> Event:
    return {"type": told, "object": pod(uid, version)}


class Server:
    """Pods in pages; watches that are played one after the other, each a list of events and failures."""

    def __init__(self, *pods: Event) -> None:
        self.pods = list(pods)
        self.version = 10
        self.failures: list[ClusterError] = []
        self.watches: list[list[Event | ClusterError]] = []
        self.pages: list[tuple[int, str]] = []
        self.watched_from: list[str] = []
        self.takes_watches = False
        self.heard_seconds = math.inf
        self.served: list[bool] = []

    async def serves(self, api_version: str, kind: str, plural: str) -> bool:
        return self.served.pop(0)

    async def page(
        self, path: str, query: Mapping[str, str], largest_bytes: float, *, metadata_only: bool
    ) -> str | None:
        assert query["fieldSelector"] == PODS.field_selector
        if self.failures:
            raise self.failures.pop(0)
        begin, limit = int(query.get("continue", 0)), int(query["limit"])
        self.pages.append((begin, limit))
        more = str(begin + limit) if begin + limit < len(self.pods) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        text = json.dumps({"kind": "PodList", "metadata": metadata, "items": self.pods[begin : begin + limit]})
        return text if len(text) <= largest_bytes else None

    async def watch(self, path: str, query: Mapping[str, str], *, metadata_only: bool) -> AsyncIterator[Event | None]:
        self.watched_from.append(query["resourceVersion"])
        if self.takes_watches:
            yield None
        if not self.watches:
            await asyncio.Event().wait()
        for told in self.watches.pop(0):
            if isinstance(told, ClusterError):
                raise told
            yield told


class Fed:
    """Sink of what arrives."""

    def __init__(self) -> None:
        self.events: list[tuple[str | None, str]] = []

    def __call__(self, kind: Watched, told: str | None, body: Mapping[str, Any]) -> None:
        self.events.append((told, body["metadata"]["uid"]))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "RETRY_SECONDS", (0.0,))
    monkeypatch.setattr(reflector, "LONGEST_OUTAGE_SECONDS", 120.0)
    monkeypatch.setattr(reflector, "AFTER_A_WATCH_SECONDS", 0.0)
    monkeypatch.setattr(reflector, "ABSENT_SECONDS", 0.0)


async def played(
    server: Server, watches: int, clock: Callable[[], float] = time.monotonic, kind: Watched = PODS
) -> tuple[Fed, Reflector]:
    """Run until so many watches were begun, and the last of them has nothing to tell."""
    fed = Fed()
    followed = Reflector(server, kind, "", fed, clock)
    running = asyncio.create_task(followed.run())
    async with asyncio.timeout(5):
        while len(server.watched_from) < watches:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return fed, followed


async def test_what_is_listed_is_fed_and_what_comes_later_too() -> None:
    server = Server(pod("a"), pod("b"))
    server.watches = [[event("MODIFIED", "a", 11), event("ADDED", "c", 12), event("DELETED", "b", 13)]]
    fed, followed = await played(server, 2)

    assert fed.events == [(None, "a"), (None, "b"), ("MODIFIED", "a"), ("ADDED", "c"), ("DELETED", "b")]
    assert followed.listed
    assert server.watched_from == ["10", "13"]


async def test_it_is_not_listed_before_the_last_page() -> None:
    server = Server(*(pod(f"p{number}") for number in range(1001)))
    fed = Fed()
    followed = Reflector(server, PODS, "", fed)
    seen: list[tuple[int, bool]] = []
    page = server.page

    async def noted(*arguments: Any, **more: Any) -> str | None:
        seen.append((len(fed.events), followed.listed))
        return await page(*arguments, **more)

    server.page = noted  # type: ignore[method-assign]
    running = asyncio.create_task(followed.run())
    while not server.watched_from:
        await asyncio.sleep(0)
    running.cancel()

    assert seen == [(0, False), (500, False), (1000, False)]
    assert followed.listed
    assert len(fed.events) == 1001


async def test_a_bookmark_moves_the_place_from_which_a_watch_goes_on() -> None:
    server = Server(pod("a"))
    server.watches = [
        [event("ADDED", "b", 11), {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}}]
    ]
    fed, _ = await played(server, 2)

    assert fed.events == [(None, "a"), ("ADDED", "b")]
    assert server.watched_from == ["10", "99"]


async def test_a_watch_that_breaks_goes_on_where_it_was() -> None:
    server = Server(pod("a"))
    server.watches = [[event("ADDED", "b", 11), Unavailable("reset")]]
    await played(server, 2)

    assert server.watched_from == ["10", "11"]
    assert len(server.pages) == 1


@pytest.mark.parametrize(
    "forgotten", [[GONE], [Rejected("410 Gone", 410)], [{"type": "ERROR", "object": {"code": 500}}]], ids=str
)
async def test_what_was_deleted_in_a_gap_is_found_by_the_next_list(forgotten: list[Event | ClusterError]) -> None:
    server = Server(pod("a"), pod("b"))
    server.watches = [[event("ADDED", "c", 11), *forgotten]]
    fed = Fed()
    followed = Reflector(server, PODS, "", fed)
    running = asyncio.create_task(followed.run())
    while not server.watched_from:
        await asyncio.sleep(0)
    server.pods, server.version = [pod("b")], 20
    while len(server.watched_from) < 2:
        await asyncio.sleep(0)
    running.cancel()

    assert server.watched_from == ["10", "20"]
    assert sorted(uid for told, uid in fed.events if told == "DELETED") == ["a", "c"]


async def test_a_server_that_goes_on_refusing_a_watch_is_listed_again() -> None:
    """One that was restored from a backup waits for a version that it will not have for long."""
    server = Server(pod("a"))
    server.watches = [[Unavailable("too large resource version")]] * 3
    server.version = 10
    await played(server, 4)

    assert len(server.pages) == 2


class Clock:
    """Each look at it is so many seconds after the last one."""

    def __init__(self, step_seconds: float) -> None:
        self.step_seconds, self.looks = step_seconds, 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * self.step_seconds


@pytest.mark.parametrize("step_seconds", [5.0, 30.0], ids=["it refuses", "it hangs"])
async def test_a_server_that_gives_nothing_for_two_minutes_ends_it(step_seconds: float) -> None:
    server, clock = Server(pod("a")), Clock(step_seconds)
    server.failures = [Rejected("403 Forbidden", 403)] * 99
    with pytest.raises(Rejected):
        await Reflector(server, PODS, "", Fed(), clock).run()

    assert (clock.looks - 1) * step_seconds == 120


async def test_an_outage_that_is_over_does_not_count_for_the_next_one() -> None:
    """The watch that was taken in between was cut before it had lived for long."""
    server, clock = Server(pod("a")), Clock(15.0)
    server.heard_seconds, server.failures = -math.inf, [Unavailable("refused")] * 20
    followed = Reflector(server, PODS, "", Fed(), clock)
    running = asyncio.create_task(followed.run())
    while server.failures:
        await asyncio.sleep(0)
    server.heard_seconds, server.failures = clock.looks * 15.0 + 1.0, [Unavailable("refused")] * 20
    while server.failures:
        await asyncio.sleep(0)

    assert not running.done()
    running.cancel()


@pytest.mark.parametrize(("heard_seconds", "ends_seconds"), [(math.inf, 120.0), (-math.inf, 900.0)])
async def test_a_server_that_answers_nothing_at_all_is_waited_for(heard_seconds: float, ends_seconds: float) -> None:
    """Its cache is old then, and nothing can be written on it; where other requests are answered it would be."""
    server, clock = Server(pod("a")), Clock(15.0)
    server.heard_seconds, server.failures = heard_seconds, [Unavailable("refused")] * 99
    with pytest.raises(Unavailable):
        await Reflector(server, PODS, "", Fed(), clock).run()

    assert (clock.looks - 1) * clock.step_seconds == ends_seconds


@pytest.mark.parametrize("refusal", [Rejected("403", 403), Unavailable("503"), Throttled("429", 0.0), GONE], ids=str)
async def test_lists_that_are_answered_hide_no_watch_that_is_refused(refusal: Event | ClusterError) -> None:
    """Or every list would be read anew each second, of a server that has too much to do."""
    server = Server(pod("a"))
    server.watches = [[refusal] for _ in range(99)]
    with pytest.raises(ClusterError):
        await Reflector(server, PODS, "", Fed(), Clock(5.0)).run()

    assert len(server.watched_from) == 25


@pytest.mark.parametrize(("step_seconds", "ends"), [(1.0, True), (30.0, False), (80.0, True)])
async def test_a_quiet_watch_that_was_open_for_a_while_is_no_failure(step_seconds: float, ends: bool) -> None:
    """A proxy may cut it each half minute; one that is taken and cut at once, or hangs, is another thing."""
    server = Server(pod("a"))
    server.takes_watches, server.watches = True, [[Unavailable("cut")] for _ in range(200)]
    if ends:
        with pytest.raises(Unavailable):
            await Reflector(server, PODS, "", Fed(), Clock(step_seconds)).run()
    else:
        await played(server, 200, Clock(step_seconds))
        assert len(server.pages) == 1


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": None}], ids=str)
async def test_an_event_without_a_version_is_no_end(body: Event) -> None:
    server = Server(pod("a"))
    server.watches = [[{"type": "MODIFIED", "object": body}]]
    fed, _ = await played(server, 2)

    assert fed.events == [(None, "a")]


async def test_refusals_are_only_counted_in_a_row() -> None:
    server = Server(pod("a"))
    server.watches = [[event("MODIFIED", "a", 11 + number), Unavailable("reset")] for number in range(9)]
    fed, _ = await played(server, 10)

    assert len(fed.events) == 10


async def test_the_silence_that_a_server_asks_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    pause = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await pause(0)

    server = Server(pod("a"))
    server.failures = [Throttled("429", 7.0)]
    monkeypatch.setattr(reflector.asyncio, "sleep", noted)
    await played(server, 1)

    assert 7.0 in slept


async def test_a_page_of_large_objects_is_asked_for_in_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "LARGEST_PAGE_BYTES", 10_000)
    server = Server(*(pod(f"p{number}", spec="x" * 900) for number in range(9)), pod("huge", spec="x" * 20_000))
    fed, followed = await played(server, 1)

    assert [uid for _, uid in fed.events] == [*(f"p{number}" for number in range(9)), "huge"]
    assert server.pages == [(0, 500), (0, 62), (0, 7), (7, 14), (7, 1), (8, 2), (8, 1), (9, 2), (9, 1)]
    assert followed.listed


async def test_a_kind_that_is_not_installed_has_nothing_until_it_is() -> None:
    server = Server(pod("a"))
    server.failures, server.served = [NotFound("404"), NotFound("404"), NotFound("404")], [False, False, True]
    fed, followed = await played(server, 1, kind=replace(PODS, may_be_absent=True))

    assert (fed.events, followed.listed, server.served) == ([(None, "a")], True, [])


async def test_what_was_there_is_gone_with_its_definition_and_not_with_one_answer() -> None:
    server = Server(pod("a"))
    server.watches = [[Unavailable("ends")], [GONE], [GONE]]
    served, failures = [True, False], [NotFound("404"), NotFound("404")]

    class Uninstalled(Server):
        async def page(self, *args: Any, **options: Any) -> str | None:
            if len(self.watched_from) == 3 and failures:
                raise failures.pop(0)
            return await super().page(*args, **options)

    made = Uninstalled(pod("a"))
    made.watches, made.served = server.watches, served
    fed, _ = await played(made, 4, kind=replace(PODS, may_be_absent=True))

    assert [told for told in fed.events if told[0] == "DELETED"] == [("DELETED", "a")]
    assert fed.events[-1] == (None, "a")


@pytest.mark.parametrize(
    "refusal", [Unavailable("500"), Rejected("403 Forbidden", 403), NotFound("404"), Throttled("429", 0.0)], ids=str
)
async def test_an_allowed_kind_that_cannot_be_read_ends_nothing_and_is_held_no_more(
    refusal: ClusterError, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken conversion webhook, no rights, or another plural."""
    server = Server(pod("a"))
    server.takes_watches, server.watches = True, [[event("ADDED", "b", 11), GONE]]
    server.served = [True] * 999
    fed = Fed()
    followed = Reflector(server, replace(PODS, may_be_absent=True), "", fed, Clock(5.0))
    running = asyncio.create_task(followed.run())
    async with asyncio.timeout(5):
        while not server.watched_from:
            await asyncio.sleep(0)
        server.failures = [refusal] * 99
        while server.failures:
            await asyncio.sleep(0)
            if followed.lacking:
                assert sorted(uid for told, uid in fed.events if told == "DELETED") == ["a", "b"]
                assert followed.listed
        while len(server.watched_from) < 2 or followed.lacking:
            await asyncio.sleep(0)
    assert not running.done()
    running.cancel()

    assert fed.events[-1] == (None, "a")
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1


async def test_a_kind_that_was_never_read_holds_up_no_start() -> None:
    server = Server(pod("a"))
    server.failures = [Unavailable("500")] * 50
    followed = Reflector(server, replace(PODS, may_be_absent=True), "", Fed(), Clock(5.0))
    running = asyncio.create_task(followed.run())
    async with asyncio.timeout(5):
        while not followed.listed:
            await asyncio.sleep(0)
    running.cancel()

    assert followed.lacking == "500"
    assert server.failures


async def test_a_kind_of_kubernetes_is_never_taken_for_absent() -> None:
    server = Server(pod("a"))
    server.failures = [NotFound("404")]
    fed, _ = await played(server, 1)

    assert fed.events == [(None, "a")]
