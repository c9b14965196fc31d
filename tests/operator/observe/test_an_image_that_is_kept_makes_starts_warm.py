"""Images on nodes: a warm start is counted with where the image is, and no less than was seen elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, Body, deployment, inference_deployment, metadata, replica_set
from tests.operator.observe.test_starts_are_told_apart import registered, started

IMAGE, OLD = "vllm/vllm-openai:v0.33.0", "vllm/vllm-openai:v0.32.0"
COLD_SECONDS, LOAD_SECONDS = 400.0, 220.0
TIMES = {"now_seconds": 5.0, "wall_seconds": EPOCH + 500}


def keeper(
    node: str, *images: str, of: str = "rag", pulled: bool = True, kind: str = "DaemonSet", **options: Any
) -> Body:
    """A pod that keeps images on a node; `pulled`: its containers were made."""
    names = [f"image-{number}" for number, _ in enumerate(images)]
    made = [{"name": name, "imageID": "sha256:1" if pulled else "", "state": {}} for name in names]
    labels = {"firsttoken.dev/image-of": of}
    return {
        "metadata": metadata(f"keeper-{node}", owner=(kind, of, f"uid-set-{of}"), labels=labels, **options),
        "spec": {
            "nodeName": node,
            "containers": [{"name": name, "image": image} for name, image in zip(names, images, strict=True)],
        },
        "status": {"phase": "Running", "containerStatuses": made},
    }


def store_of(*keepers: Body, image: str = IMAGE, on: str = "old") -> Store:
    """A Deployment of this image, of which one pod started on a node and pulled it, with these keepers beside it."""
    target = deployment()
    target["spec"]["template"]["spec"]["containers"][0]["image"] = image
    store = Store()
    pulled = started("cold", scheduled=0, sandbox=5, begun=185, ready=COLD_SECONDS, on=on)
    for kind, body in (
        ("InferenceDeployment", inference_deployment()), ("Deployment", target), ("ReplicaSet", replica_set()),
        ("Node", registered(on, -9000, -8900)), ("Pod", pulled), *(("Pod", each) for each in keepers),
    ):  # fmt: skip
        store.feed(kind, None, body)
    return store


def counted_seconds(store: Store) -> float:
    (resource,) = build_snapshot(store, {}, {}, Settings().timing, **TIMES).resources
    return resource.time_to_ready_seconds


def test_where_the_image_is_on_every_node_a_warm_start_is_counted_with() -> None:
    assert counted_seconds(store_of(keeper("old", IMAGE), keeper("new", IMAGE))) == LOAD_SECONDS


@pytest.mark.parametrize(
    "keepers",
    [
        pytest.param((), id="none is kept"),
        pytest.param((keeper("old", IMAGE), keeper("new", IMAGE, pulled=False)), id="a node still pulls it"),
        pytest.param((keeper("old", IMAGE), keeper("", IMAGE, pulled=False)), id="a pod has no node yet"),
        pytest.param((keeper("new", IMAGE),), id="a pod runs where it is not kept"),
        pytest.param((keeper("old", OLD),), id="of another image"),
        pytest.param((keeper("old", IMAGE, of="another"),), id="of another resource"),
        pytest.param((keeper("old", IMAGE, kind="ReplicaSet"),), id="of no DaemonSet"),
        pytest.param((keeper("old", IMAGE, namespace="another"),), id="in another namespace"),
        pytest.param((keeper("old", IMAGE, deletionTimestamp="2026-01-01T00:00:00Z"),), id="that ends"),
    ],
)
def test_where_it_is_not_certain_what_was_seen_counts(keepers: tuple[Body, ...]) -> None:
    assert counted_seconds(store_of(*keepers)) == COLD_SECONDS


def test_while_a_rollout_waits_the_image_that_runs_and_the_next_one_are_kept() -> None:
    both = keeper("old", IMAGE, OLD)

    assert counted_seconds(store_of(both)) == counted_seconds(store_of(both, image=OLD)) == LOAD_SECONDS


def test_what_keeps_an_image_comes_and_goes() -> None:
    store = store_of(keeper("old", IMAGE))
    for event, body, seconds in (
        ("MODIFIED", keeper("old", IMAGE, pulled=False), COLD_SECONDS),
        ("MODIFIED", keeper("old", IMAGE), LOAD_SECONDS),
        ("DELETED", keeper("old", IMAGE), COLD_SECONDS),
        ("ADDED", keeper("old", IMAGE), LOAD_SECONDS),
        ("MODIFIED", keeper("old", IMAGE) | {"status": {"phase": "Failed"}}, COLD_SECONDS),
        ("MODIFIED", keeper("old", IMAGE), LOAD_SECONDS),
        ("MODIFIED", keeper("old", IMAGE, kind="ReplicaSet"), COLD_SECONDS),
    ):
        store.feed("Pod", event, body)
        assert counted_seconds(store) == seconds, event


def test_it_is_no_replica_and_holds_no_gpu() -> None:
    alone, beside = store_of(), store_of(keeper("old", IMAGE))

    assert beside.pods_of("uid-nim") == alone.pods_of("uid-nim")
    assert beside.gpu_pods() == alone.gpu_pods()


def test_one_with_gpus_is_charged_for_them_whatever_its_label_says() -> None:
    hidden = keeper("old", IMAGE)
    hidden["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    store = store_of(hidden)

    assert [pod.gpus for pod in store.gpu_pods() if pod.name == "keeper-old"] == [8]
    assert counted_seconds(store) == COLD_SECONDS


@pytest.mark.parametrize("status", [{}, {"containerStatuses": [{}]}, {"containerStatuses": None}])
def test_what_it_does_not_say_is_no_image(status: Body) -> None:
    assert counted_seconds(store_of(keeper("old", IMAGE) | {"status": status})) == COLD_SECONDS
