"""Resources that are rendered at a tick, and their first replicas when the pool is short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from firsttoken_operator.act.errors import ClusterError, Unavailable
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.render import RenderResult, States
from firsttoken_operator.decide import Memory, decide, judge
from firsttoken_operator.domain import (
    Claims,
    ConditionType,
    FailedWrite,
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.domain.gpu_pools import Server
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import rendering
from firsttoken_operator.run.rendering import RENDERINGS_A_TICK, Rendered
from tests.operator.act.objects import decision, infd
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.decide.builders import POLICY, SIZED, lost, metrics, resource, target

ABSENT = TargetMissing(Reason.TARGET_NOT_FOUND, "not there")


class Recorded:
    """A renderer that writes down what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.starts_seconds: list[float | None] = []
        """Time that starts were said to take."""
        self.answer: RenderResult | None = RenderResult(Reason.RENDERED, "done", created=True)
        self.present: States = {}
        self.problem: ClusterError | None = None

    async def states(self, renderings: Iterable[Rendering]) -> dict[str, States]:
        if self.problem is not None:
            raise self.problem
        return {rendering.resource.metadata.uid: self.present for rendering in renderings}

    async def render(
        self, rendering: Rendering, replicas: int, *, is_known: bool, may_roll: bool
    ) -> RenderResult | None:
        self.asked.append((rendering.resource.metadata.name, replicas))
        self.starts_seconds.append(rendering.p99_start_seconds)
        return self.answer


def fleet(*names: str, budget: int | None = 100, **changes: object) -> tuple[Store, FleetSnapshot]:
    store, resources = Store(), []
    for name in names:
        document = infd(name, runtime=dict(MINIMAL))
        del document["spec"]["targetRef"]
        document["metadata"] |= {"uid": name, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        store.feed("InferenceDeployment", "ADDED", document)
        base = resource(ABSENT, lost(), pool="h100", claims=Claims(name, is_rendered=True))
        resources.append(replace(base, uid=name, name=name, **changes))  # type: ignore[arg-type]
    pools = {"h100": PoolSnapshot("h100", budget, budget, False, 20, 600)}
    return store, FleetSnapshot(0, 15, tuple(resources), pools)


def made() -> tuple[Rendered, Recorded]:
    renderer = Recorded()
    return Rendered(renderer, monitor_labels={}, scrape_interval_seconds=15), renderer  # type: ignore[arg-type]


def there(snapshot: FleetSnapshot) -> FleetSnapshot:
    return replace(snapshot, resources=tuple(replace(r, target=target(6)) for r in snapshot.resources))


async def test_what_is_there_and_unchanged_is_applied_once_after_a_start() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    for _ in range(3):
        await rendered.reconcile(there(snapshot), store, ())

    assert renderer.asked == [("a", 6)]


@pytest.mark.parametrize("seconds", [None, 1900.0])
async def test_a_rollout_is_given_the_time_that_starts_took(seconds: float | None) -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    known = replace(target(6), p99_start_seconds=seconds)
    slow = tuple(replace(r, target=known) for r in snapshot.resources)
    await rendered.reconcile(replace(snapshot, resources=slow), store, ())

    assert renderer.starts_seconds == [seconds]


async def test_a_list_that_fails_puts_nothing_back_and_stops_nothing() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    await rendered.reconcile(there(snapshot), store, ())
    renderer.problem = Unavailable("503")
    results = [await rendered.reconcile(there(snapshot), store, ()) for _ in range(2)]

    assert (renderer.asked, results) == ([("a", 6)], [{}, {}])


async def test_a_list_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    await rendered.reconcile(there(snapshot), store, ())
    monkeypatch.setattr(rendering, "STATES_SECONDS", 0.05)
    monkeypatch.setattr(renderer, "states", lambda renderings: asyncio.sleep(3600))

    async with asyncio.timeout(30):
        assert await rendered.reconcile(there(snapshot), store, ()) == {}


async def test_a_failure_that_goes_on_is_told_once_until_it_is_another() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    told = []
    for reason in (Reason.WRITE_DENIED, Reason.WRITE_DENIED, Reason.WRITE_FAILED, Reason.RENDERED):
        renderer.answer = RenderResult(reason, "403")
        told.append(list(await rendered.reconcile(there(snapshot), store, ())))
        explained = rendered.explain(there(snapshot).resources[0])
        assert explained.unrendered == (FailedWrite(reason, "403") if reason is not Reason.RENDERED else None)

    assert told == [["a"], [], ["a"], ["a"]]


async def test_what_its_server_cannot_run_is_said_once_and_on_the_resource() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    document = infd("a", runtime=dict(MINIMAL), sizing={"batching": ["InFlight", "Static"]})
    del document["spec"]["targetRef"]
    document["metadata"] |= {"uid": "a", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"}
    store.feed("InferenceDeployment", "MODIFIED", document)
    told = [await rendered.reconcile(there(snapshot), store, ()) for _ in range(3)]
    explained = rendered.explain(there(snapshot).resources[0])

    assert [[result.reason for result in each.values()] for each in told] == [[Reason.INVALID_SPEC], [], []]
    assert explained.unrendered is not None
    assert explained.unrendered.message.startswith("sizing.batching: a replica runs one way of batching")
    assert renderer.asked == []


async def test_a_replica_that_one_server_of_its_pool_cannot_hold_is_refused() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    pool = {
        "apiVersion": "firsttoken.dev/v1alpha1", "kind": "GPUPool",
        "metadata": {"name": "h100", "uid": "p", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"location": "OnPrem", "gpu": "H100-SXM-80GB", "gpusPerServer": 4},
    }  # fmt: skip
    store.feed("GPUPool", "ADDED", pool)
    large = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=4, pipeline_parallel=2))
    snapshot = replace(snapshot, resources=tuple(replace(r, sized=large) for r in snapshot.resources))
    (told,) = (await rendered.reconcile(snapshot, store, ())).values()

    assert told.reason is Reason.INVALID_SPEC
    assert told.message.startswith("hardware.pipelineParallel: a replica of 8 GPUs is more than one server has (4)")
    assert renderer.asked == []


@pytest.mark.parametrize(("free", "groups"), [((8, 8, 8, 8), 2), ((8, 8, 8, 7), 1), ((8, 7, 7, 7), 0), ((8, 8), 1)])
async def test_as_many_groups_are_made_as_have_whole_servers(free: tuple[int, ...], groups: int) -> None:
    renderer = Recorded()
    rendered = Rendered(
        renderer,  # type: ignore[arg-type]
        monitor_labels={},
        scrape_interval_seconds=15,
        spans_servers=True,
    )
    store, snapshot = fleet("a")
    document = infd("a", runtime={"type": "VLLM", "image": "vllm/vllm-openai:v0.33.0", "checkpoint": "a/checkpoint"})
    del document["spec"]["targetRef"]
    document["metadata"] |= {"uid": "a", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"}
    store.feed("InferenceDeployment", "MODIFIED", document)
    servers = tuple(Server(f"gpu-{number}", 8, 8 - gpus) for number, gpus in enumerate(free))
    pool = PoolSnapshot("h100", sum(free), sum(free), False, 20, 600, servers=servers)
    large = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=8, pipeline_parallel=2))
    several = replace(snapshot.resources[0], sized=large, policy=replace(POLICY, min_replicas=2, max_replicas=2))
    told = await rendered.reconcile(replace(snapshot, resources=(several,), pools={"h100": pool}), store, ())

    assert renderer.asked == ([("a", groups)] if groups else [])
    assert groups or [result.reason for result in told.values()] == [Reason.POOL_FRAGMENTED]


async def test_what_waits_though_pods_may_roll_is_asked_once() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    renderer.answer = RenderResult(Reason.ROLLOUT_PENDING, "until the Deployment is deleted")
    for _ in range(3):
        assert await rendered.reconcile(there(snapshot), store, ()) == {}

    assert renderer.asked == [("a", 6)]
    assert rendered.explain(there(snapshot).resources[0]).pending_rollout == "until the Deployment is deleted"


async def test_what_had_no_turn_has_not_failed_and_stays_what_it_was() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    renderer.answer = None
    assert await rendered.reconcile(there(snapshot), store, ()) == {}
    assert rendered.explain(there(snapshot).resources[0]).unrendered is None
    renderer.answer = RenderResult(Reason.WRITE_DENIED, "403")
    assert list(await rendered.reconcile(there(snapshot), store, ())) == ["a"]
    renderer.answer = None

    assert await rendered.reconcile(there(snapshot), store, ()) == {}
    assert rendered.explain(there(snapshot).resources[0]).unrendered == FailedWrite(Reason.WRITE_DENIED, "403")


async def test_a_tick_renders_so_many_and_those_that_fail_keep_none_of_the_others_from_a_turn() -> None:
    rendered, renderer = made()
    names = [f"n{i:03}" for i in range(2 * RENDERINGS_A_TICK + 1)]
    store, snapshot = fleet(*names, budget=10_000)
    renderer.answer = RenderResult(Reason.CONFLICT, "the name is taken")
    asked = []
    for _ in range(3):
        await rendered.reconcile(there(snapshot), store, ())
        asked.append([name for name, _ in renderer.asked])
        renderer.asked.clear()

    assert [len(some) for some in asked] == [RENDERINGS_A_TICK] * 3
    assert sorted({name for some in asked for name in some}) == names


async def test_a_deployment_that_went_missing_is_made_again() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    await rendered.reconcile(there(snapshot), store, ())
    await rendered.reconcile(snapshot, store, ())

    assert len(renderer.asked) == 2


async def test_two_new_deployments_share_what_the_pool_has() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", "b", budget=8)
    await rendered.reconcile(snapshot, store, ())

    assert renderer.asked == [("a", 6), ("b", 2)]


@pytest.mark.parametrize(("mode", "first"), [(ScalingMode.ACTIVE, [("new", 3)]), (ScalingMode.ADVISORY, [("new", 6)])])
async def test_an_increase_granted_in_the_same_tick_takes_its_gpus_first(
    mode: ScalingMode, first: list[tuple[str, int]]
) -> None:
    rendered, renderer = made()
    store, snapshot = fleet("new", budget=16)
    growing = replace(
        resource(target(8), metrics(60.0), pool="h100"), uid="old", name="old", policy=replace(POLICY, mode=mode)
    )
    snapshot = replace(snapshot, resources=(*snapshot.resources, growing))
    await rendered.reconcile(snapshot, store, (decision(growing, 8, 13),))

    assert renderer.asked == first


async def test_without_a_free_gpu_it_waits_and_says_so() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", budget=0)
    results = await rendered.reconcile(snapshot, store, ())
    explained: ResourceSnapshot = rendered.explain(snapshot.resources[0])

    assert renderer.asked == []
    assert results["a"].reason is Reason.POOL_EXHAUSTED
    assert isinstance(explained.target, TargetMissing)
    assert explained.target.reason is Reason.POOL_EXHAUSTED


async def test_what_was_made_and_is_not_shown_yet_is_charged() -> None:
    rendered, _ = made()
    store, snapshot = fleet("new", budget=16)
    await rendered.reconcile(snapshot, store, ())
    explained = rendered.explain(snapshot.resources[0])
    growing = replace(resource(target(8), metrics(60.0), pool="h100"), uid="old", name="old")
    (_, before), _ = decide(replace(snapshot, resources=(snapshot.resources[0], growing)), Memory())
    (_, after), _ = decide(replace(snapshot, resources=(explained, growing)), Memory())

    assert (before.to_replicas, after.to_replicas) == (12, 10)


async def test_what_was_made_and_is_not_shown_yet_is_admitted_once_and_leaves_the_rest_to_others() -> None:
    rendered, renderer = made()
    store, both = fleet("a", "b", budget=8)
    await rendered.reconcile(replace(both, resources=both.resources[:1]), store, ())
    renderer.asked.clear()
    await rendered.reconcile(replace(both, resources=tuple(rendered.explain(r) for r in both.resources)), store, ())

    assert sorted(renderer.asked) == [("a", 6), ("b", 2)]


async def test_what_is_shown_is_charged_for_its_pods_and_no_more() -> None:
    rendered, _ = made()
    store, snapshot = fleet("new", budget=16)
    await rendered.reconcile(snapshot, store, ())
    rendered.explain(there(snapshot).resources[0])

    assert rendered.explain(snapshot.resources[0]).target == ABSENT


async def test_a_window_that_is_open_is_part_of_the_first_replicas() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", scheduled_requests_per_second=55.0)
    await rendered.reconcile(snapshot, store, ())

    assert renderer.asked == [("a", 11)]


async def test_what_may_sleep_starts_awake() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", policy=replace(POLICY, min_replicas=0))
    await rendered.reconcile(snapshot, store, ())

    assert renderer.asked == [("a", 6)]


async def test_what_is_scaled_to_zero_is_rendered_and_stays_there() -> None:
    rendered, _ = made()
    store, snapshot = fleet("a", policy=replace(POLICY, min_replicas=0), budget=0)
    scaled_to_zero = replace(snapshot, resources=tuple(replace(r, target=target(0)) for r in snapshot.resources))
    results = await rendered.reconcile(scaled_to_zero, store, ())

    assert results["a"].reason is Reason.RENDERED, "it needs no GPU of the pool to be rendered"


async def test_larger_replicas_than_the_pool_has_gpus_for_are_not_rendered_and_a_condition_tells_of_it() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", budget=8)
    running = there(snapshot)
    await rendered.reconcile(running, store, ())
    larger = replace(SIZED, configuration=replace(SIZED.configuration, tensor_parallel=2))
    wider = replace(running, resources=tuple(replace(r, sized=larger) for r in running.resources))
    results = await rendered.reconcile(wider, store, ())
    explained = rendered.explain(wider.resources[0])
    said = {j.kind: j for j in judge(explained, decision(explained, 6, 6))}

    assert renderer.asked == [("a", 6)]
    assert results["a"].reason is Reason.POOL_EXHAUSTED
    for kind in (ConditionType.CAPACITY_AVAILABLE, ConditionType.READY):
        assert (said[kind].holds, said[kind].reason) == (False, Reason.POOL_EXHAUSTED)
        assert "pool h100 has no 6 free GPUs more for 2 GPUs a replica" in said[kind].message

    await rendered.reconcile(replace(wider, pools={"h100": replace(wider.pools["h100"], budget_gpus=12)}), store, ())
    assert renderer.asked == [("a", 6), ("a", 6)]
    assert rendered.explain(wider.resources[0]).unrendered is None


async def test_an_unknown_inventory_makes_nothing() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", budget=None)
    results = await rendered.reconcile(snapshot, store, ())

    assert (renderer.asked, results["a"].reason) == ([], Reason.POOL_INVENTORY_UNKNOWN)


async def test_a_running_fleet_is_not_rolled_while_its_pool_cannot_be_read() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a")
    snapshot = there(snapshot)
    known = replace(snapshot.pools["h100"], node_selector={"rack": "7"})
    results = [
        await rendered.reconcile(replace(snapshot, pools=pools), store, ())
        for pools in ({"h100": known}, {"h100": replace(known, node_selector={}, problem="spec.location")}, {})
    ]

    assert renderer.asked == [("a", 6)]
    assert [list(told) for told in results] == [["a"], [], []], "it runs on, and that is no news"


async def test_a_failed_rendering_is_tried_again() -> None:
    rendered, renderer = made()
    renderer.answer = RenderResult(Reason.WRITE_FAILED, "503")
    store, snapshot = fleet("a")
    for _ in range(2):
        await rendered.reconcile(snapshot, store, ())

    assert len(renderer.asked) == 2


async def test_another_tensor_parallel_is_rendered_although_the_running_pods_do_not_fit_it() -> None:
    rendered, renderer = made()
    store, snapshot = fleet("a", sized=Unsized(Reason.TENSOR_PARALLEL_MISMATCH, "", withheld=SIZED))
    await rendered.reconcile(there(snapshot), store, ())

    assert renderer.asked == [("a", 6)]


async def test_paused_or_unsized_resources_are_not_rendered() -> None:
    rendered, renderer = made()
    for changes in (
        {"policy": replace(POLICY, mode=ScalingMode.PAUSED)},
        {"sized": Unsized(Reason.UNKNOWN_MODEL, "")},
        {"conflict": "another controller"},
    ):
        store, snapshot = fleet("a", **changes)  # type: ignore[arg-type]
        await rendered.reconcile(snapshot, store, ())

    assert renderer.asked == []
