"""Sizing runs beside the ticks: none waits for it, what is known stays in force, and every resource has its turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firsttoken_operator.act.status import Answer
from firsttoken_operator.domain import Sized
from firsttoken_operator.run import question
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.objects import infd
from tests.operator.run.sizings import edit, held, rest, settled, stored, tick, told

UNKNOWN = {"name": "unknown/model"}


@pytest.fixture
def sizer() -> Iterator[Sizer]:
    """One that is closed at the end."""
    made = Sizer()
    yield made
    made.close()


def load(requests_per_second: int) -> dict[str, Any]:
    return {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": str(requests_per_second)}


def peak(answer: Answer) -> float | None:
    assert answer.declared is not None
    return answer.declared.peak_requests_per_second


async def test_every_resource_gets_an_answer_of_its_own(sizer: Sizer) -> None:
    store = stored(infd("good"), infd("unknown", model=UNKNOWN), infd("broken", hardware={"gpus": []}))

    assert told(await settled(sizer, store)) == {"r-0": "Sized", "r-1": "UnknownModel", "r-2": "InvalidSpec"}


async def test_no_tick_waits_for_a_sizing(sizer: Sizer, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(infd("a"), infd("b", traffic=load(50)))
    with held(monkeypatch) as gate:
        assert [told(await tick(sizer, store)) for _ in range(3)] == [{}] * 3
        gate.let(1)
        await gate.began(2)
        assert told(await tick(sizer, store)) == {"r-0": "Sized"}
    await rest(sizer)

    assert told(await tick(sizer, store)) == {"r-0": "Sized", "r-1": "Sized"}
    assert len(gate.asked) == 2


async def test_what_is_known_stays_in_force_until_the_new_size_is_there(
    sizer: Sizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = infd("a", traffic=load(40))
    store = stored(document)
    before = (await settled(sizer, store))["r-0"]
    with held(monkeypatch):
        edit(store, document, traffic=load(80))
        meanwhile = [(await tick(sizer, store))["r-0"] for _ in range(2)]
        waiting = sizer.waiting
    await rest(sizer)
    after = (await tick(sizer, store))["r-0"]

    assert (waiting, sizer.waiting) == (1, 0), "the one that is being sized counts"
    assert [(peak(a), a.generation, a.is_outdated) for a in meanwhile] == [(40.0, 1, True)] * 2
    assert (peak(before), before.generation, before.is_outdated) == (40.0, 1, False)
    assert (peak(after), after.generation, after.is_outdated) == (80.0, 2, False)


async def test_an_edit_that_asks_the_same_is_answered_at_once(sizer: Sizer) -> None:
    document = infd("a")
    store = stored(document)
    await settled(sizer, store)
    edit(store, document, scaling={"mode": "Paused"})
    answer = (await tick(sizer, store))["r-0"]

    assert (answer.generation, answer.is_outdated, sizer.waiting) == (2, False, 0)


@pytest.mark.slow
async def test_one_that_is_edited_at_every_tick_starves_no_other_and_is_sized_itself(
    sizer: Sizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sizing takes a tick here."""
    edited, others = infd("edited", traffic=load(10)), [infd(f"o-{n}", traffic=load(20 + n)) for n in range(5)]
    store = stored(edited, *others)
    with held(monkeypatch) as gate:
        for number in range(1, 13):
            await tick(sizer, store)
            await gate.began(number)
            edit(store, edited, traffic=load(100 + number))
            gate.let(1)
        found = await tick(sizer, store)

    assert found.keys() == {f"r-{n}" for n in range(6)}
    assert (peak(found["r-0"]) or 0.0) > 101


@pytest.mark.slow
async def test_what_was_asked_the_same_is_sized_once(sizer: Sizer, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(*(infd(f"r{n}", traffic=load(40 + n // 10)) for n in range(30)))
    with held(monkeypatch) as gate:
        gate.let()
        found = await settled(sizer, store)

    assert set(told(found).values()) == {"Sized"}
    assert len(found) == 30
    assert len(gate.asked) == 3


@pytest.mark.slow
async def test_sizing_is_done_again_only_when_something_changed(sizer: Sizer, monkeypatch: pytest.MonkeyPatch) -> None:
    document = infd("good")
    store = stored(document)
    with held(monkeypatch) as gate:
        gate.let()
        for _ in range(3):
            await settled(sizer, store)
        store.feed("InferenceDeployment", "MODIFIED", document | {"status": {"replicas": 3}})
        await settled(sizer, store)
        assert len(gate.asked) == 1

        edit(store, document, traffic=load(99))
        await settled(sizer, store)
    assert len(gate.asked) == 2


async def test_what_was_chosen_is_not_sized_again_when_it_is_pinned(
    sizer: Sizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = infd("a")
    store = stored(document)
    with held(monkeypatch) as gate:
        gate.let()
        answer = (await settled(sizer, store))["r-0"]
        assert isinstance(answer.sized, Sized)
        chosen = answer.sized.configuration
        pinned = {"gpu": chosen.gpu, "precision": chosen.precision, "tensorParallel": chosen.tensor_parallel,
                  "pipelineParallel": chosen.pipeline_parallel}  # fmt: skip
        store.feed("InferenceDeployment", "MODIFIED", document | {"status": {"sizing": {"configuration": pinned}}})
        again = [(await tick(sizer, store))["r-0"] for _ in range(3)]

    assert [(a.sized, a.is_outdated, a.recommended, a.compared) for a in again] == [
        (answer.sized, False, None, True)
    ] * 3
    assert len(gate.asked) == 1


async def test_nothing_is_kept_of_what_is_gone(sizer: Sizer) -> None:
    document = infd("a")
    store = stored(document, infd("b", traffic=load(50)))
    for number in range(4):
        edit(store, document, traffic=load(60 + number))
        await settled(sizer, store)
    for gone in list(store.resources.values()):
        store.feed("InferenceDeployment", "DELETED", {"metadata": {"uid": gone.uid}})

    assert await settled(sizer, store) == {}
    assert [len(kept) for kept in (sizer._known, sizer._in_force, sizer._questions)] == [0] * 3
    assert sizer._turns.take() is None


@pytest.mark.parametrize(
    ("model", "named", "times"),
    [
        ("meta/llama-3-8b-instruct", False, 2),
        ("meta-llama/Meta-Llama-3-70B-Instruct", False, 1),
        ("meta-llama/Meta-Llama-3-70B-Instruct", True, 2),
        ("unknown/model", False, 1),
    ],
)
async def test_only_profiles_of_its_own_model_or_named_ones_make_a_resource_sized_again(
    model: str, named: bool, times: int, sizer: Sizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = question.sizing_request

    def counted(*arguments: Any) -> Any:
        asked.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(question, "sizing_request", counted)
    store = stored(infd("good", **({"sizing": {"benchmarks": ["mine"]}} if named else {})))
    await settled(sizer, store)
    profile = {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": "BenchmarkProfile",
        "metadata": {"name": "mine", "uid": "p", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "model": model, "gpu": "H100-SXM-80GB", "precision": "FP8", "inputTokens": 2000, "outputTokens": 200,
            "load": "ClosedLoop",
            "points": [{"concurrency": 1, "requestsPerSecond": 0.8, "ttftMilliseconds": {"p95": 60}}],
        },
    }  # fmt: skip
    store.feed("BenchmarkProfile", "ADDED", profile)
    assert store.profiles["p"].parsed is not None, store.profiles["p"].problem
    await settled(sizer, store)

    assert len(asked) == times


async def test_a_sizing_that_crashes_is_an_answer(sizer: Sizer, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(request: Any, **_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(question, "size", crash)

    assert told(await settled(sizer, stored(infd("good")))) == {"r-0": "InvalidSpec"}


FP16 = {"gpu": "H100-SXM-80GB", "precision": "FP16", "tensorParallel": 1, "pipelineParallel": 1}


def pinned_to(configuration: dict[str, Any]) -> dict[str, Any]:
    """A resource that leaves the precision to the sizing and runs with this configuration."""
    document = infd("pinned", model={"name": "meta-llama/Meta-Llama-3-8B-Instruct"})
    return document | {"status": {"sizing": {"configuration": configuration}}}


async def test_a_pinned_configuration_stays_and_a_better_one_is_recommended(sizer: Sizer) -> None:
    answer = (await settled(sizer, stored(pinned_to(FP16 | {"tensorParallel": 8}))))["r-0"]

    assert isinstance(answer.sized, Sized)
    assert answer.sized.configuration.tensor_parallel == 8
    assert answer.recommended is not None
    assert answer.recommended.tensor_parallel == 1


async def test_nothing_is_recommended_where_the_best_is_pinned_or_nothing_is(sizer: Sizer) -> None:
    found = await settled(sizer, stored(pinned_to(FP16 | {"precision": "FP8"}), infd("unpinned")))

    assert [(answer.recommended, answer.compared) for answer in found.values()] == [(None, True)] * 2


@pytest.mark.slow
async def test_what_is_pinned_is_compared_once_and_after_all_that_wait(
    sizer: Sizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stored(pinned_to(FP16), *(infd(f"o-{n}", traffic=load(40 + n)) for n in range(3)))
    with held(monkeypatch) as gate:
        gate.let()
        for _ in range(3):
            await settled(sizer, store)

    assert [request.pinned is not None for request in gate.asked] == [True, False, False, False, False]
    assert gate.asked[-1].workload == gate.asked[0].workload


async def test_a_comparison_that_crashes_recommends_nothing(sizer: Sizer, monkeypatch: pytest.MonkeyPatch) -> None:
    real = question.size

    def crash(request: Any, **_: Any) -> Any:
        if request.pinned is None:
            raise MemoryError
        return real(request)

    monkeypatch.setattr(question, "size", crash)
    answer = (await settled(sizer, stored(pinned_to(FP16))))["r-0"]

    assert (isinstance(answer.sized, Sized), answer.recommended, answer.compared) == (True, None, True)
