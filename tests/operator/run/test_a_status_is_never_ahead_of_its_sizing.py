"""Statements of a status on a generation are true of it: its sizing included, which may come a tick later."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import pytest

from firsttoken_operator.run.loop import Loop, Parts
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import inference_deployment
from tests.operator.run.sizings import held, rest
from tests.operator.run.test_a_new_loop_goes_on_where_the_last_one_ended import REF, process_that_finds

Shown = tuple[int | None, dict[str, tuple[str, str, int]]]


class Played:
    """One resource, decided on tick after tick; the watch shows at once what is written."""

    def __init__(self) -> None:
        self.cluster = FakeCluster({REF: {"status": {}}})
        self.sizer = Sizer()
        self.document = inference_deployment("rag")
        self.loop, self.parts = self.restarted()

    def restarted(self) -> tuple[Loop, Parts]:
        """A new process that finds what the last one wrote."""
        status = copy.deepcopy(self.cluster.objects[REF]["status"])
        return process_that_finds(status, self.cluster, Settings(), self.sizer)

    def edit(self, **spec: Any) -> None:
        self.document["metadata"]["generation"] += 1
        self.document["spec"] |= spec

    async def tick(self) -> Shown:
        """Status after a tick: its generation; status, reason and generation of the conditions."""
        self.document["status"] = copy.deepcopy(self.cluster.objects[REF]["status"])
        self.parts.store.feed("InferenceDeployment", "MODIFIED", copy.deepcopy(self.document))
        await self.loop.tick(time.monotonic())
        await self.parts.writes.settle()
        status = self.cluster.objects[REF]["status"]
        shown = {c["type"]: (c["status"], c["reason"], c["observedGeneration"]) for c in status.get("conditions", ())}
        return status.get("observedGeneration"), shown


@pytest.fixture
def played() -> Iterator[Played]:
    made = Played()
    yield made
    made.sizer.close()


async def test_a_new_resource_is_unknown_until_it_is_sized(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    with held(monkeypatch):
        assert await played.tick() == (None, {}), "its size is there in a moment, and nothing is said until then"
        generation, shown = await played.tick()
        assert (generation, shown["SizingReady"]) == (None, ("Unknown", "Unknown", 1))
    await rest(played.sizer)
    generation, shown = await played.tick()
    assert (generation, shown["SizingReady"]) == (1, ("True", "Sized", 1))


async def test_an_edit_is_answered_with_its_size_and_not_before(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await played.tick()
        await rest(played.sizer)
    with held(monkeypatch):
        scaling = {"minReplicas": 1, "mode": "Advisory"}
        played.edit(traffic={"inputTokens": 2000, "outputTokens": 300, "peakRequestsPerSecond": 50}, scaling=scaling)
        generation, shown = await played.tick()
    assert (generation, shown["SizingReady"]) == (1, ("True", "Resizing", 1))
    assert (shown["SLAFeasible"][2], shown["Ready"][2]) == (1, 1)
    assert shown["ScalingActive"] == ("False", "Advisory", 2), "what needs no size is obeyed at once"
    await rest(played.sizer)
    generation, shown = await played.tick()
    assert (generation, shown["SizingReady"]) == (2, ("True", "Sized", 2))


async def test_an_edit_within_a_tick_is_not_answered_by_it(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    await played.tick()
    await rest(played.sizer)
    answers = played.sizer.answers

    async def edited_meanwhile(*asked: Any) -> Any:
        found = await answers(*asked)
        played.edit(traffic={"inputTokens": 2000, "outputTokens": 300, "peakRequestsPerSecond": 50})
        played.parts.store.feed("InferenceDeployment", "MODIFIED", copy.deepcopy(played.document))
        return found

    monkeypatch.setattr(played.sizer, "answers", edited_meanwhile)
    generation, shown = await played.tick()

    assert (generation, shown["SizingReady"][2]) == (1, 1)


async def test_a_size_that_was_told_of_and_not_kept_for_the_next_process_is_not_taken_back(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = {"inputTokens": 2000, "peakRequestsPerSecond": 50}
    await played.tick()
    await rest(played.sizer)
    kept = played.sizer.kept()
    played.edit(traffic=traffic | {"outputTokens": 300})
    await played.tick()
    await rest(played.sizer)
    await played.tick()
    told = played.cluster.objects[REF]["status"]["sizing"]
    played.sizer.close()
    played.sizer = Sizer()
    played.sizer.restore(kept)
    played.loop, played.parts = played.restarted()
    with held(monkeypatch):
        played.edit(traffic=traffic | {"outputTokens": 400})
        generation, shown = await played.tick()

    assert shown["SizingReady"][1] == "Resizing", "it decides on the size of the first generation"
    assert (generation, played.cluster.objects[REF]["status"]["sizing"]) == (2, told)
    await rest(played.sizer)
    assert (await played.tick())[0] == 3
