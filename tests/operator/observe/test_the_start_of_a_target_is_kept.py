"""The start of a target's server is read from its pod template, whatever its kind, and only numbers are kept of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.domain import Target
from firsttoken_operator.domain.target_kinds import NAMED
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.starts import ending_of, started_by
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.runtimes.started import MOST_CHARACTERS
from firsttoken_sizing.engines import Engine
from tests.operator.observe.bodies import EPOCH, Body, deployment, inference_deployment, metadata

SERVE = ["vllm", "serve", "a/model", "--tensor-parallel-size=2"]
KINDS = tuple(NAMED.values())
API = {kind.kind: kind.api_version for kind in KINDS}


def container(gpus: int = 2, **fields: Any) -> Body:
    return {"name": "nim", "resources": {"limits": {"nvidia.com/gpu": gpus}}} | fields


def template(*containers: Body) -> Body:
    return {"spec": {"containers": list(containers)}}


def workload(kind: str, serving: Body) -> list[tuple[str, Body]]:
    """An object of a kind whose pods run this container, or that makes a Deployment that does."""
    status = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3}
    body: Body = {"metadata": metadata("nim"), "spec": {"replicas": 3}, "status": status}
    if kind in ("Deployment", "StatefulSet"):
        body["spec"]["template"] = template(serving)
    elif kind == "LeaderWorkerSet":
        group = {"size": 2, "leaderTemplate": template(serving), "workerTemplate": template(container(command=["ray"]))}
        body["spec"]["leaderWorkerTemplate"] = group
    else:
        made = deployment("made", owner=(kind, "nim", "uid-nim"))
        made["spec"]["template"] = template(serving) | {"metadata": {"labels": {"app": "nim"}}}
        return [(kind, body), ("Deployment", made)]
    return [(kind, body)]


def seen(kind: str, serving: Body) -> Target:
    store = Store(KINDS)
    reference = {"apiVersion": API.get(kind, "apps/v1"), "kind": kind, "name": "nim"}
    store.feed("InferenceDeployment", None, inference_deployment(target_ref=reference))
    for each, body in workload(kind, serving):
        store.feed(each, None, body)
    built = build_snapshot(store, {}, {}, Settings().timing, now_seconds=5.0, wall_seconds=EPOCH + 100)
    (resource,) = built.resources
    assert isinstance(resource.target, Target), resource.target
    return resource.target


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet", "NIMService"])
def test_every_kind_with_a_template_tells(kind: str) -> None:
    found = seen(kind, container(command=SERVE)).started

    assert found is not None
    assert (found.given.engine, found.given.tensor_parallel) == (Engine.VLLM, 2)


def test_a_template_without_a_server_that_is_known_tells_nothing() -> None:
    assert seen("Deployment", container(image="nim:1")).started is None


@pytest.mark.parametrize(
    ("hook", "sleeps_seconds"),
    [
        pytest.param(None, 0, id="none"),
        pytest.param({"sleep": {"seconds": 5}}, 5, id="sleep"),
        pytest.param({"exec": {"command": ["sleep", "5"]}}, 5, id="a command"),
        pytest.param({"exec": {"command": ["/bin/sh", "-c", "sleep 5"]}}, 5, id="a shell's"),
        pytest.param({"exec": {"command": ["/bin/sh", "-c", "sleep 5 && drain"]}}, None, id="more than a sleep"),
        pytest.param({"httpGet": {"path": "/drain", "port": 8000}}, None, id="a request"),
    ],
)
def test_the_end_of_a_pod_is_read(hook: Body | None, sleeps_seconds: float | None) -> None:
    ends = {"lifecycle": {"preStop": hook}} if hook else {}
    pod_spec = template(container(command=SERVE, **ends))["spec"]
    found = ending_of(pod_spec | {"terminationGracePeriodSeconds": 60}, started_by(pod_spec))

    assert (found.grace_seconds, found.sleep_seconds) == (60, sleeps_seconds)
    assert found.drain == ("--shutdown-timeout", 0)
    assert ending_of(template(container(), container())["spec"], None).sleep_seconds is None, "which one, is not told"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet", "NIMService"])
def test_every_kind_with_a_template_tells_the_end_of_its_pods(kind: str) -> None:
    ending = seen(kind, container(command=[*SERVE, "--shutdown-timeout=20"])).ending

    assert ending is not None
    assert (ending.grace_seconds, ending.drain) == (30, ("--shutdown-timeout", 20))


@pytest.mark.parametrize(
    ("containers", "tensor_parallel"),
    [
        pytest.param([container(command=SERVE)], 2, id="one"),
        pytest.param([container(command=SERVE), {"name": "proxy", "command": ["envoy"]}], 2, id="beside another"),
        pytest.param([container(0, command=SERVE)], 2, id="GPUs by a claim"),
        pytest.param([container(command=SERVE), container(command=SERVE)], None, id="two with GPUs"),
        pytest.param([{"name": "a", "command": SERVE}, {"name": "b"}], None, id="two without GPUs"),
        pytest.param([], None, id="none"),
        pytest.param([container(command=["vllm", "serve"], args=["-tp", "2"])], 2, id="arguments"),
        pytest.param([container(command=None, args=None, env=None, image=None)], None, id="nothing in it"),
        pytest.param(
            [container(env=[{"name": "NIM_TENSOR_PARALLEL_SIZE", "value": "2"}, {"name": "NGC_API_KEY"}])], 2, id="NIM"
        ),
        pytest.param(
            [container(env=[{"name": "NIM_TENSOR_PARALLEL_SIZE", "valueFrom": {"secretKeyRef": {"name": "a"}}}])],
            None,
            id="a value of a Secret",
        ),
        pytest.param([container(command=[*SERVE, "x" * MOST_CHARACTERS])], None, id="too long"),
    ],
)
def test_the_one_container_that_serves_is_read(containers: list[Body], tensor_parallel: int | None) -> None:
    found = started_by({"containers": containers})

    assert (found.given.tensor_parallel if found else None) == tensor_parallel


texts = st.text(max_size=30) | st.sampled_from(["vllm", "serve", "-tp=2", "bash", "-c", "$(A)", "trtllm-serve"])
variables = st.fixed_dictionaries({"name": texts}, optional={"value": texts, "valueFrom": st.just({})})
hooks = st.fixed_dictionaries(
    {},
    optional={
        "sleep": st.none() | st.fixed_dictionaries({"seconds": st.integers(0, 2**63 - 1)}),
        "exec": st.none() | st.fixed_dictionaries({}, optional={"command": st.none() | st.lists(texts, max_size=4)}),
    },
)
containers = st.fixed_dictionaries(
    {"name": texts},
    optional={
        "image": st.none() | texts,
        "command": st.none() | st.lists(texts, max_size=6),
        "args": st.none() | st.lists(texts, max_size=6),
        "env": st.none() | st.lists(variables, max_size=4),
        "lifecycle": st.none() | st.fixed_dictionaries({}, optional={"preStop": st.none() | hooks}),
    },
)


@given(st.lists(containers, max_size=3))
def test_no_template_that_an_api_server_takes_breaks_the_projection(found: list[Body]) -> None:
    body = deployment()
    body["spec"]["template"] = template(*found)
    store = Store()
    store.feed("Deployment", None, body)

    view = store.workload(body["metadata"]["namespace"], "nim", "Deployment")
    assert view is not None
    assert view.started == started_by({"containers": found})
