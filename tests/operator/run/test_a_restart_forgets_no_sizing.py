"""Sizings outlive the process: a new one decides on all of them at its first tick, and on nothing that is broken."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from firsttoken_operator.act.errors import Conflict, Unavailable
from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.status import Answer
from firsttoken_operator.domain import Unsized
from firsttoken_operator.run import question, sizing_store
from firsttoken_operator.run.sizer import Kept, Sizer
from firsttoken_operator.run.sizing_store import SizingStore, pack, unpack
from tests.fixtures.sizing_questions import questions
from tests.helm.chart import NAMESPACE
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.objects import infd, workload
from tests.operator.run.looped import QUEUES
from tests.operator.run.process import Process, create, get, installed
from tests.operator.run.sizings import edit, held, rest, settled, stored, tick, told
from tools.cluster import wait_until

pytestmark = pytest.mark.slow

NAME = "system/ft-sizings"


class Keeping(FakeCluster):
    """An API server that keeps what is applied."""

    async def apply(self, manifest: dict[str, Any]) -> dict[str, Any]:
        await super().apply(manifest)
        ref, kept = ObjectRef.of(manifest), copy.deepcopy(manifest)
        if self._get(ref)["metadata"]["resourceVersion"] != kept["metadata"]["resourceVersion"]:
            raise Conflict("stale")
        self.objects[ref] = kept
        self.touch(ref)
        return kept


@pytest.fixture
def sizers() -> Iterator[list[Sizer]]:
    """Two of them, one after the other: closed at the end."""
    made = [Sizer(), Sizer()]
    yield made
    for sizer in made:
        sizer.close()


def load(requests_per_second: int) -> dict[str, Any]:
    return {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": str(requests_per_second)}


async def handed_over(cluster: Keeping, sizers: list[Sizer]) -> Sizer:
    """The second sizer, with what the first one left in the cluster."""
    first, second = sizers
    await saved(cluster, first)
    second.restore(await store_in(cluster).load())
    return second


def store_in(cluster: Keeping) -> SizingStore:
    QUEUES.append(WriteQueue())
    return SizingStore(cluster, QUEUES[-1], NAME)


async def saved(cluster: Keeping, sizer: Sizer, keeper: SizingStore | None = None) -> None:
    """Write what the sizer knows."""
    keeper = keeper or store_in(cluster)
    await keeper.save(sizer.kept())
    await keeper._writes.settle()


def figures(answer: Answer) -> tuple[Any, ...]:
    """Figures of an answer that a decision and a status read."""
    sized = answer.sized
    rest_ = (answer.shown, answer.declared, answer.cost_per_hour, answer.recommended, answer.compared)
    if isinstance(sized, Unsized):
        return (sized, *rest_)
    table = sized.table
    columns = np.column_stack((table.rates, table.ttft, table.itl, table.end_to_end, table.kv_percent))
    numbers = (
        table.capacity_requests_per_second, table.saturation_requests_per_second,
        table.capacity_alone_requests_per_second, table.sized_replicas, table.work,
    )  # fmt: skip
    plain = (sized.configuration, sized.sla, sized.replicas_for_declared_peak, sized.replicas_for_declared_average)
    return (np.nan_to_num(columns, nan=-1.0).tolist(), numbers, plain, sized.settings, *rest_)


@pytest.mark.slow
@pytest.mark.parametrize("name", questions())
def test_an_answer_is_read_back_as_it_was(name: str) -> None:
    request = questions()[name]
    answer = question.answers(request, name)[question.content_of(request)]
    back = unpack(pack(Kept(answer, {"r-1": 3})))

    assert figures(back.answer) == figures(answer)
    assert back.generations == {"r-1": 3}


async def test_nothing_is_sized_again_after_a_restart(sizers: list[Sizer], monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = infd("impossible", sla={"timeToFirstToken": {"milliseconds": 1}})
    store = stored(*(infd(f"r{n}", traffic=load(40 + n)) for n in range(3)), impossible)
    before = await settled(sizers[0], store)
    second = await handed_over(Keeping(), sizers)
    with held(monkeypatch) as gate:
        after = await tick(second, store)

    assert {uid: figures(answer) for uid, answer in after.items()} == {u: figures(a) for u, a in before.items()}
    assert {answer.is_outdated for answer in after.values()} == {False}
    assert (len(gate.asked), second.waiting, told(after)["r-3"]) == (0, 0, "SingleRequestTTFT")


@pytest.mark.slow
async def test_a_thousand_are_decided_on_at_the_first_tick(
    sizers: list[Sizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = question.size(next(iter(questions().values())))
    monkeypatch.setattr(question, "size", lambda request, **_: replace(template, request=request))
    store = stored(*(infd(f"r{n}", traffic=load(10 + n)) for n in range(1000)))
    await settled(sizers[0], store)
    cluster = Keeping()
    second = await handed_over(cluster, sizers)
    with held(monkeypatch) as gate:
        after = await tick(second, store)

    assert set(told(after).values()) == {"Sized"}
    assert (len(after), len(gate.asked)) == (1000, 0)
    sizes = [sum(map(len, body["binaryData"].values())) for body in cluster.objects.values()]
    assert len(sizes) == len(sizing_store.SHARDS)
    assert max(sizes) < sizing_store.SHARD_BYTES


async def test_what_another_version_sized_stays_in_force_until_it_is_sized_again(
    sizers: list[Sizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stored(infd("a"))
    before = (await settled(sizers[0], store))["r-0"]
    second = await handed_over(Keeping(), sizers)
    monkeypatch.setattr(question, "fingerprint", lambda: "another version")
    with held(monkeypatch) as gate:
        meanwhile = (await tick(second, store))["r-0"]
        await gate.began(1)
    await rest(second)
    after = (await tick(second, store))["r-0"]

    assert (figures(meanwhile), meanwhile.is_outdated, meanwhile.generation) == (figures(before), True, 1)
    assert (after.is_outdated, len(gate.asked)) == (False, 1)


async def test_what_was_edited_while_no_operator_ran_is_decided_on_as_before(
    sizers: list[Sizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = infd("a", traffic=load(40))
    store = stored(document)
    before = (await settled(sizers[0], store))["r-0"]
    second = await handed_over(Keeping(), sizers)
    edit(store, document, traffic=load(400))
    with held(monkeypatch):
        meanwhile = (await tick(second, store))["r-0"]

    assert (figures(meanwhile), meanwhile.is_outdated, meanwhile.generation) == (figures(before), True, 1)


def spoiled(text: str, **changes: Any) -> str:
    document = json.loads(zlib.decompress(base64.b64decode(text)))
    for path, value in changes.items():
        inner = document
        *parents, last = path.split("__")
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()


SPOILED = {
    "no base64": lambda text: "%%%",
    "not compressed": lambda text: base64.b64encode(b"{}").decode(),
    "cut off": lambda text: base64.b64encode(base64.b64decode(text)[:-40]).decode(),
    "not JSON": lambda text: base64.b64encode(zlib.compress(b"[")).decode(),
    "too large": lambda text: base64.b64encode(zlib.compress(b" " * 2_000_000 + b"{}")).decode(),
    "an infinite capacity": lambda text: spoiled(text, size__table__capacity_requests_per_second=float("inf")),
    "no capacity": lambda text: spoiled(text, size__table__capacity_requests_per_second=float("nan")),
    "a negative size": lambda text: spoiled(text, size__replicas_for_declared_peak=-1),
    "no rows": lambda text: spoiled(text, size__table__rows=[]),
    "rows too short": lambda text: spoiled(text, size__table__rows=[[1.0, 2.0]]),
    "rates that fall": lambda text: spoiled(text, size__table__rows=[[2.0] * 17, [1.0] * 17]),
    "neither a size nor a reason": lambda text: spoiled(text, size=None),
    "a field of another version": lambda text: spoiled(text, newer=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
async def test_what_is_broken_is_sized_again_and_spoils_no_other(spoil: Any, sizers: list[Sizer]) -> None:
    store, cluster = stored(infd("a", traffic=load(40)), infd("b", traffic=load(50))), Keeping()
    await settled(sizers[0], store)
    await saved(cluster, sizers[0])
    for body in cluster.objects.values():
        for content, text in body["binaryData"].items():
            if "r-0" in unpack(text).generations:
                body["binaryData"][content] = spoil(text)
    sizers[1].restore(await store_in(cluster).load())

    assert told(await tick(sizers[1], store)) == {"r-1": "Sized"}
    await rest(sizers[1])


@pytest.mark.slow
async def test_only_what_changed_is_written_and_what_is_gone_is_left_out(sizers: list[Sizer]) -> None:
    documents = [infd(f"r{n}", traffic=load(40 + n)) for n in range(4)]
    store, cluster = stored(*documents), Keeping()
    await settled(sizers[0], store)
    keeper = store_in(cluster)
    await saved(cluster, sizers[0], keeper)
    first = len(cluster.writes())
    await saved(cluster, sizers[0], keeper)
    assert len(cluster.writes()) == first > 0

    store.feed("InferenceDeployment", "DELETED", documents[0])
    await settled(sizers[0], store)
    await saved(cluster, sizers[0], keeper)
    assert first < len(cluster.writes()) <= first + 2, "its answer had two names, which may be in two ConfigMaps"
    left = {
        uid for b in cluster.objects.values() for text in b["binaryData"].values() for uid in unpack(text).generations
    }
    assert left == {"r-1", "r-2", "r-3"}


async def test_what_another_process_kept_since_is_not_written_over(sizers: list[Sizer]) -> None:
    store, cluster = stored(infd("a")), Keeping()
    await settled(sizers[0], store)
    keeper = store_in(cluster)
    await saved(cluster, sizers[0], keeper)
    first = len(cluster.writes())
    for ref in cluster.objects:
        cluster.touch(ref)
    before = copy.deepcopy(cluster.objects)
    keeper._there.clear()
    await saved(cluster, sizers[0], keeper)

    assert (cluster.objects, len(cluster.writes())) == (before, first + len(before)), "each was refused"


async def test_a_server_that_fails_is_written_to_when_it_is_back(sizers: list[Sizer]) -> None:
    store, cluster = stored(infd("a")), Keeping(error=Unavailable("503"))
    await settled(sizers[0], store)
    keeper = store_in(cluster)
    assert await keeper.load() == {}
    for _ in range(3):
        await saved(cluster, sizers[0], keeper)
    shards = {content[0] for content in sizers[0].kept()}
    tried = len(cluster.calls) - len(sizing_store.SHARDS)
    assert (cluster.objects, tried) == ({}, len(shards)), "put off, not repeated"

    cluster.error = None
    async with asyncio.timeout(30):
        while len(cluster.objects) < len(shards):
            await asyncio.sleep(0.05)
    assert set((await store_in(cluster).load()).keys()) == sizers[0].kept().keys()
    await keeper._writes.close()


def sizing_ready(cluster: Any, names: list[str]) -> list[dict[str, Any]]:
    conditions = [c for name in names for c in get(cluster, "infd", name).get("status", {}).get("conditions", ())]
    return [condition for condition in conditions if condition["type"] == "SizingReady"]


@pytest.mark.cluster
def test_a_process_that_was_killed_is_followed_by_one_that_knows_its_sizings(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    with installed() as (cluster, account):
        config = tmp_path / "config.yaml"
        config.write_text(yaml.safe_dump({"sizingStore": f"{NAMESPACE}/firsttoken-sizings"}))
        process = Process(tmp_path, account, "--config", str(config))
        wait_until(process.ready, 60, "operator ready")
        for number, name in enumerate(names):
            create(cluster, workload(1, name), infd(name, targetRef={"name": name}, traffic=load(40 + number)))

        def kept() -> set[str]:
            found = cluster.kubectl("-n", NAMESPACE, "get", "configmaps", "-o", "json").stdout
            return {content for item in json.loads(found)["items"] for content in item.get("binaryData", {})}

        def is_settled() -> bool:
            # Of one resource two names may be kept while nothing is of another: wait until nothing new comes.
            first = kept()
            time.sleep(4)
            return len(first) >= 3 and kept() == first

        wait_until(lambda: len(sizing_ready(cluster, names)) == 3, 60, "three conditions")
        wait_until(lambda: {c["reason"] for c in sizing_ready(cluster, names)} == {"Sized"}, 60, "three sized")
        wait_until(is_settled, 60, "three sizings kept")
        before = sizing_ready(cluster, names)
        process.kill()
        successor = Process(tmp_path, account, "--config", str(config))
        wait_until(lambda: successor.ready() and successor.ticks() >= 3, 60, "three ticks")
        after = sizing_ready(cluster, names)
        log = successor.log.read_text()
        successor.kill()

    assert after == before, "not for a tick was it unknown"
    assert {condition["status"] for condition in after} == {"True"}
    # Of each one or two names are kept: its own, and that of the one that pins what was chosen.
    assert re.search(r"[3-6] sizings are known from before", log)
