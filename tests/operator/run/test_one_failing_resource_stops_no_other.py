"""A resource whose decision or sizing raises: the others go on, and its GPUs stay charged."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot, PoolSnapshot, ResourceSnapshot, Sized
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import isolation, sizer
from firsttoken_operator.run.isolation import decide_isolated
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.objects import infd
from tests.operator.decide.builders import metrics, resource, target

POOL = PoolSnapshot("h100", budget_gpus=20, inventory_gpus=20, on_prem=False, scale_down_limit_percent=100,
                    scale_down_limit_window_seconds=600)  # fmt: skip


class FailingMetrics(dict[str, Any]):
    """Metrics that explode when read."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("unreadable")


def named(name: str, **changes: Any) -> ResourceSnapshot:
    made = resource(target(10, uid=f"d-{name}"), metrics(100.0), pool="h100")
    return replace(made, uid=name, name=name, **changes)


def fleet(*resources: ResourceSnapshot) -> FleetSnapshot:
    return FleetSnapshot(0.0, 15.0, resources, {"h100": POOL})


def test_without_a_failing_resource_it_is_the_plain_decision() -> None:
    snapshot = fleet(named("a"), named("b"))
    decided = decide_isolated(snapshot, Memory())

    assert (decided.decisions, decided.failed) == (decide(snapshot, Memory())[0], ())


def test_the_others_are_decided_and_the_failing_one_is_named() -> None:
    failing = named("bad", metrics=FailingMetrics())
    decided = decide_isolated(fleet(named("a"), failing), Memory())

    assert [d.name for d in decided.decisions] == ["a"]
    assert [r.name for r in decided.failed] == ["bad"]


def test_the_gpus_of_the_failing_one_are_not_given_to_others() -> None:
    alone = decide_isolated(fleet(named("a")), Memory()).decisions[0]
    beside = decide_isolated(fleet(named("a"), named("bad", metrics=FailingMetrics())), Memory()).decisions[0]

    assert alone.to_replicas == 20
    assert beside.to_replicas == 10


def test_a_fault_of_no_resource_in_particular_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(snapshot: FleetSnapshot, memory: Memory) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(isolation, "decide", broken)
    with pytest.raises(ZeroDivisionError):
        decide_isolated(fleet(named("a")), Memory())


def stored(*documents: dict[str, Any]) -> Store:
    store = Store()
    for number, document in enumerate(documents):
        document["metadata"] |= {"uid": f"r-{number}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        store.feed("InferenceDeployment", "ADDED", document)
    return store


async def answers(made: Sizer, store: Store) -> dict[str, str]:
    found = await made.answers(store.resources.values(), store.pools.values(), store.profiles.values())
    return {uid: getattr(answer.sized, "reason", "Sized") for uid, answer in found.items()}


async def test_every_resource_gets_an_answer_of_its_own() -> None:
    unknown = infd("unknown", model={"name": "unknown/model"})
    broken = infd("broken", hardware={"gpus": []})
    store = stored(infd("good"), unknown, broken)

    assert await answers(Sizer(), store) == {"r-0": "Sized", "r-1": "UnknownModel", "r-2": "InvalidSpec"}


async def test_a_tick_sizes_no_longer_than_its_budget_and_the_next_ones_go_on() -> None:
    store = stored(infd("a"), infd("b"), infd("c"))
    ticking = itertools.count()  # every look at the clock takes a second
    made = Sizer(budget_seconds=1.5, clock=lambda: float(next(ticking)))

    assert await answers(made, store) == {"r-0": "Sized"}
    assert await answers(made, store) == {"r-0": "Sized", "r-1": "Sized"}
    assert await answers(made, store) == {"r-0": "Sized", "r-1": "Sized", "r-2": "Sized"}


async def test_a_resource_that_waits_for_its_turn_keeps_its_earlier_answer() -> None:
    first, second = infd("a"), infd("b")
    store, times = stored(first, second), itertools.chain([0.0] * 3, itertools.count())
    made = Sizer(budget_seconds=1.5, clock=lambda: float(next(times)))
    await answers(made, store)
    for document in (first, second):
        document["metadata"]["generation"] = 2
        document["spec"]["model"] = {"name": "unknown/model"}
        store.feed("InferenceDeployment", "MODIFIED", document)

    assert await answers(made, store) == {"r-0": "UnknownModel", "r-1": "Sized"}


async def test_sizing_is_done_again_only_when_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    sized: list[str] = []
    real = sizer.size

    def counted(request: Any) -> Any:
        sized.append(request.model)
        return real(request)

    monkeypatch.setattr(sizer, "size", counted)
    document = infd("good")
    store, made = stored(document), Sizer()
    for _ in range(3):
        await answers(made, store)
    assert len(sized) == 1

    store.feed("InferenceDeployment", "MODIFIED", document | {"status": {"replicas": 3}})
    await answers(made, store)
    assert len(sized) == 1

    changed = {**document, "metadata": document["metadata"] | {"generation": 2}}
    store.feed("InferenceDeployment", "MODIFIED", changed)
    await answers(made, store)
    assert len(sized) == 2


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
    model: str, named: bool, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = sizer._answer
    monkeypatch.setattr(sizer, "_answer", lambda question: asked.append(question) or real(question))
    store, made = stored(infd("good", **({"sizing": {"benchmarks": ["mine"]}} if named else {}))), Sizer()
    await answers(made, store)
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
    await answers(made, store)

    assert len(asked) == times


async def test_a_sizing_that_crashes_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(request: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(sizer, "size", crash)

    assert await answers(Sizer(), stored(infd("good"))) == {"r-0": "InvalidSpec"}


FP16 = {"gpu": "H100-SXM-80GB", "precision": "FP16", "tensorParallel": 1, "pipelineParallel": 1}


def pinned_to(configuration: dict[str, Any]) -> dict[str, Any]:
    """A resource that leaves the precision to the sizing and runs with this configuration."""
    document = infd("pinned", model={"name": "meta-llama/Meta-Llama-3-8B-Instruct"})
    return document | {"status": {"sizing": {"configuration": configuration}}}


async def test_a_pinned_configuration_stays_and_a_better_one_is_recommended() -> None:
    store = stored(pinned_to(FP16))
    answer = (await Sizer().answers(store.resources.values(), (), ()))["r-0"]

    assert isinstance(answer.sized, Sized)
    assert answer.sized.configuration.precision == "FP16"
    assert answer.recommended is not None
    assert answer.recommended.precision == "FP8"


async def test_nothing_is_recommended_where_the_best_is_pinned_or_nothing_is() -> None:
    store = stored(pinned_to(FP16 | {"precision": "FP8"}), infd("unpinned"))
    made = Sizer()
    for _ in range(2):
        found = await made.answers(store.resources.values(), (), ())

    assert [(answer.recommended, answer.compared) for answer in found.values()] == [(None, True)] * 2


async def test_one_resource_a_tick_is_compared_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def better(question: Any, answer: Any) -> None:
        compared.append(question.resource.metadata.name)

    monkeypatch.setattr(sizer, "_better", better)
    store, made = stored(infd("a"), infd("b"), infd("c", hardware={"gpus": []})), Sizer()
    counts = []
    for _ in range(4):
        await made.answers(store.resources.values(), (), ())
        counts.append(len(compared))

    assert counts == [1, 2, 2, 2]


async def test_a_comparison_that_crashes_recommends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sizer.size

    def crash(request: Any) -> Any:
        if request.pinned is None:
            raise MemoryError
        return real(request)

    monkeypatch.setattr(sizer, "size", crash)
    answer = (await Sizer().answers(stored(pinned_to(FP16)).resources.values(), (), ()))["r-0"]

    assert (isinstance(answer.sized, Sized), answer.recommended, answer.compared) == (True, None, True)
