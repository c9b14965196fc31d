"""A start on a new node, one that pulls its image, and a warm one take different times, and the next is of one kind."""

from __future__ import annotations

from typing import Any

import pytest

from firsttoken_operator.domain import UNKNOWN_TIME_TO_READY_SECONDS, Target
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.readiness import StartKind, Starts
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, at, deployment, inference_deployment, node, pod, replica_set


def started(
    name: str,
    *,
    scheduled: float,
    ready: float,
    sandbox: float | None,
    begun: float | None,
    created: float = 0.0,
    on: str = "old",
) -> dict[str, Any]:
    """A pod whose sandbox and container began then (None: not said)."""
    body = pod(name, scheduled=scheduled, ready=ready, node=on, creationTimestamp=at(created))
    if sandbox is not None:
        condition = {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": at(sandbox)}
        body["status"]["conditions"].append(condition)
    if begun is not None:
        body["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": at(begun)}}
    return body


def warm(name: str, ready: float, created: float = 0.0) -> dict[str, Any]:
    return started(name, created=created, scheduled=created, sandbox=created + 2, begun=created + 3, ready=ready)


def registered(name: str, created: float, ready: float) -> dict[str, Any]:
    body = node(name)
    body["metadata"]["creationTimestamp"] = at(created)
    body["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready)}]
    return body


def store_of(*objects: tuple[str, Any]) -> Store:
    store = Store()
    old = ("Node", registered("old", -9000, -8900))
    for kind, body in (("Deployment", deployment()), ("ReplicaSet", replica_set()), old, *objects):
        store.feed(kind, None, body)
    return store


def starts_of(*objects: tuple[str, Any]) -> Starts:
    found = store_of(*objects).starts("uid-nim")
    assert found is not None
    return found


def only_kind(*objects: tuple[str, Any]) -> StartKind:
    (kind,) = starts_of(*objects).by_kind
    return kind


def test_a_pod_whose_container_begins_at_once_is_a_warm_start() -> None:
    assert only_kind(("Pod", warm("a", ready=50))) is StartKind.WARM


def test_a_container_that_waits_for_minutes_after_its_sandbox_had_to_pull_its_image() -> None:
    slow = started("a", scheduled=0, sandbox=5, begun=185, ready=300)

    assert only_kind(("Pod", slow)) is StartKind.COLD_IMAGE


def test_without_the_time_of_the_sandbox_the_scheduling_stands_for_it() -> None:
    assert only_kind(("Pod", started("a", scheduled=7, sandbox=None, begun=9, ready=60))) is StartKind.WARM
    assert only_kind(("Pod", started("a", scheduled=7, sandbox=None, begun=99, ready=160))) is StartKind.COLD_IMAGE


def test_what_an_init_container_takes_is_no_pull() -> None:
    body = started("a", scheduled=0, sandbox=2, begun=203, ready=260)
    body["status"]["initContainerStatuses"] = [{"state": {"terminated": {"finishedAt": at(201)}}}]

    assert only_kind(("Pod", body)) is StartKind.WARM


def test_the_image_of_a_second_container_is_a_pull_too() -> None:
    body = started("a", scheduled=0, sandbox=2, begun=3, ready=260)
    body["status"]["containerStatuses"].append({"state": {"running": {"startedAt": at(120)}}})

    assert only_kind(("Pod", body)) is StartKind.COLD_IMAGE


@pytest.mark.parametrize("node_first", [True, False])
def test_a_node_that_came_after_the_pod_was_made_for_it_in_any_order_of_events(node_first: bool) -> None:
    new = ("Node", registered("new", created=90, ready=110))
    fresh = ("Pod", started("a", scheduled=112, sandbox=120, begun=300, ready=400, on="new"))
    found = starts_of(*((new, fresh) if node_first else (fresh, new)))

    assert set(found.by_kind) == {StartKind.COLD_NODE}
    assert found.overall.p90_seconds == 288.0, "the deadline counts from the scheduling"
    assert found.next_p90_seconds() == 400.0, "the next pod will wait for its node as well"


def test_a_node_that_was_woken_up_for_the_pod_is_cold_and_one_that_flapped_later_is_not() -> None:
    woken = ("Node", registered("woken", created=-9000, ready=60))
    flapped = ("Node", registered("flapped", created=-9000, ready=5000))
    on_woken = ("Pod", started("a", scheduled=61, sandbox=63, begun=64, ready=100, on="woken"))
    on_flapped = ("Pod", started("b", scheduled=1, sandbox=3, begun=4, ready=40, on="flapped"))

    assert only_kind(woken, on_woken) is StartKind.COLD_NODE
    assert only_kind(flapped, on_flapped) is StartKind.WARM


def test_a_pod_that_waited_for_room_for_hours_counts_only_what_came_after() -> None:
    long = 2 * DEFAULT.starts.longest_seconds
    new = ("Node", registered("new", created=long, ready=long + 20))
    found = starts_of(
        new, ("Pod", started("a", scheduled=long + 25, sandbox=None, begun=None, ready=long + 325, on="new"))
    )

    assert found.next_p90_seconds() == 300.0


def test_what_the_pod_does_not_say_is_not_called_warm() -> None:
    gone = started("a", scheduled=0, sandbox=None, begun=None, ready=50, on="gone")

    assert only_kind(("Pod", gone)) is StartKind.UNKNOWN


def test_percentiles_are_kept_apart_by_kind() -> None:
    many = [("Pod", warm(f"w{i}", ready=40 + i)) for i in range(10)]
    found = starts_of(*many, ("Pod", started("cold", scheduled=0, sandbox=5, begun=185, ready=1000)))

    assert found.by_kind[StartKind.WARM].p90_seconds == 48.0
    assert found.by_kind[StartKind.WARM].pods == 10
    assert found.by_kind[StartKind.COLD_IMAGE].p50_seconds == 1000.0
    assert found.overall.p50_seconds == 45.0


def test_the_next_start_is_of_the_slowest_kind_of_the_last_five() -> None:
    cold = ("Pod", started("cold", scheduled=0, sandbox=5, begun=185, ready=400))
    later = [
        ("Pod", warm(f"w{i}", created=1000 * (i + 1), ready=1000 * (i + 1) + 40))
        for i in range(DEFAULT.starts.foretelling)
    ]
    among, before = starts_of(cold, *later[:-1]), starts_of(cold, *later)

    assert (StartKind.COLD_IMAGE in among.last, among.next_p90_seconds()) == (True, 400.0)
    assert (before.last, before.next_p90_seconds()) == ({StartKind.WARM}, 40.0)


def test_the_snapshot_gives_the_decision_the_time_that_the_next_start_needs() -> None:
    timing, times = Settings().timing, {"now_seconds": 5.0, "wall_seconds": EPOCH + 500}
    store = store_of(("InferenceDeployment", inference_deployment()))
    (unseen,) = build_snapshot(store, {}, {}, timing, **times).resources
    store.feed("Pod", None, warm("w", ready=30))
    store.feed("Pod", None, started("cold", scheduled=0, sandbox=5, begun=185, ready=400))
    (resource,) = build_snapshot(store, {}, {}, timing, **times).resources

    assert unseen.time_to_ready_seconds == UNKNOWN_TIME_TO_READY_SECONDS
    assert isinstance(resource.target, Target)
    assert resource.time_to_ready_seconds == 400.0


def test_where_the_image_is_there_the_next_start_is_warm_or_what_is_left_without_the_pull() -> None:
    cold = ("Pod", started("cold", scheduled=0, sandbox=5, begun=185, ready=400))
    only, both = starts_of(cold), starts_of(cold, ("Pod", warm("w", ready=90)))

    assert (only.next_p90_seconds(), only.next_p90_seconds(image_is_there=True)) == (400.0, 220.0)
    assert (both.next_p90_seconds(), both.next_p90_seconds(image_is_there=True)) == (400.0, 90.0)


def test_an_image_that_is_there_makes_no_node_of_a_new_one_and_tells_nothing_of_what_is_not_said() -> None:
    new = ("Node", registered("new", created=90, ready=110))
    fresh = ("Pod", started("a", scheduled=112, sandbox=120, begun=300, ready=400, on="new"))
    gone = ("Pod", started("b", scheduled=0, sandbox=None, begun=None, ready=50, on="gone"))

    assert starts_of(new, fresh).next_p90_seconds(image_is_there=True) == 400.0
    assert starts_of(gone).next_p90_seconds(image_is_there=True) == 50.0
