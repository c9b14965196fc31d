"""Replicas of more GPUs than a server has: a LeaderWorkerSet of one pod on each server, or one sentence why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.manifests import deployment, leader_worker_set, manifests, revision_of
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.api.served import served_replica
from firsttoken_operator.domain.target_kinds import LEADER_WORKER_SET
from firsttoken_operator.observe.workloads import project_workload
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey
from tests.operator.act.test_a_rendered_pod_is_restricted import KEY, assert_restricted, rendering

VLLM = {"type": "VLLM", "image": "vllm/vllm-openai:v0.33.0", "checkpoint": "a/checkpoint"}
SGLANG = {"type": "SGLang", "image": "lmsysorg/sglang:v0.5.23", "checkpoint": "a/checkpoint"}
NIM = {"type": "NIM", "checkpoint": None}
LEADERS = {"firsttoken.dev/inference-deployment": "chat", "leaderworkerset.sigs.k8s.io/worker-index": "0"}


def key(tensor: int, pipeline: int) -> ConfigurationKey:
    return replace(KEY, tensor_parallel=tensor, pipeline_parallel=pipeline)


def group(runtime: dict[str, Any] | None = None, *, tensor: int = 8, pipeline: int = 2, **more: Any) -> Rendering:
    """A replica of 16 GPUs, on two servers of eight, where that is allowed."""
    return replace(rendering(VLLM | (runtime or {}), key(tensor, pipeline)), **({"spans_servers": True} | more))


def pods(made: Rendering) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pods of the leader and of its workers."""
    template = leader_worker_set(made)["spec"]["leaderWorkerTemplate"]
    return template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]


@pytest.mark.parametrize(
    ("tensor", "pipeline", "size", "servers"),
    [(8, 2, 8, 2), (4, 4, 8, 2), (16, 1, 8, 2), (8, 4, 8, 4), (16, 2, 8, 4), (4, 2, 4, 2), (2, 2, 1, 4)],
)
def test_a_group_has_a_pod_on_every_server_with_all_gpus_of_it(
    tensor: int, pipeline: int, size: int, servers: int
) -> None:
    made = group(tensor=tensor, pipeline=pipeline, gpus_per_server=size)
    limits = [pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods(made)]

    assert leader_worker_set(made)["spec"]["leaderWorkerTemplate"]["size"] == servers == made.servers
    assert limits == [str(size)] * 2


def test_what_fits_into_a_server_is_a_deployment_whatever_is_allowed() -> None:
    made = group(tensor=4)

    assert manifests(made)[-1] == deployment(replace(made, spans_servers=False))


def test_a_group_starts_rolls_and_ends_as_one() -> None:
    spec = leader_worker_set(group())["spec"]

    assert spec["startupPolicy"] == "LeaderCreated"
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert spec["rolloutStrategy"]["rollingUpdateConfiguration"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}, "the shared one has the Service's name"
    assert "replicas" not in spec


def test_leaders_alone_are_called_and_scraped_and_no_pod_of_a_group_is_evicted_beside_another() -> None:
    service, budget, monitor, _ = manifests(group())

    assert service["spec"]["selector"] == monitor["spec"]["selector"]["matchLabels"] == LEADERS
    assert budget["spec"]["selector"] == {"matchLabels": {"firsttoken.dev/inference-deployment": "chat"}}
    assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("runtime", [VLLM, SGLANG, NIM | {"image": "nim:2.1.5"}], ids=["vLLM", "SGLang", "NIM"])
def test_both_pods_are_restricted_and_the_leader_alone_is_asked(runtime: dict[str, Any]) -> None:
    leader, worker = pods(group(runtime))
    asked = {"ports", "startupProbe", "readinessProbe", "livenessProbe"}
    for each in (leader, worker):
        assert_restricted(each)

    assert asked <= leader["containers"][0].keys()
    assert asked.isdisjoint(worker["containers"][0])
    assert leader["volumes"] == worker["volumes"]


def test_a_worker_computes_until_its_leader_has_ended_its_answers() -> None:
    leader, worker = pods(group({"terminationGracePeriodSeconds": 120}))
    sleeps = [each["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] for each in (leader, worker)]

    assert sleeps == [10, 115]


@pytest.mark.parametrize(
    ("runtime", "leader_told", "worker_told"),
    [
        (VLLM, "--master-addr=$(LWS_LEADER_ADDRESS)", {"--headless"}),
        (SGLANG, "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000", set()),
    ],
    ids=["vLLM", "SGLang"],
)
def test_each_server_is_told_its_number_and_its_leader(
    runtime: dict[str, Any], leader_told: str, worker_told: set[str]
) -> None:
    leader, worker = (each["containers"][0]["args"] for each in pods(group(runtime)))
    alone = deployment(rendering(runtime, key(8, 1)))["spec"]["template"]["spec"]["containers"][0]["args"]

    assert {"--nnodes=2", "--node-rank=$(LWS_WORKER_INDEX)", leader_told} <= set(leader)
    assert set(worker) - set(leader) == worker_told
    assert not {word.partition("=")[0] for word in alone} & {"--nnodes", "--node-rank", "--headless"}


@pytest.mark.parametrize(
    ("runtime", "options", "why"),
    [
        pytest.param({}, {"spans_servers": False}, "LeaderWorkerSet is not allowed here", id="not allowed"),
        pytest.param({"image": "vllm:v0.12.0"}, {}, "VLLM is started on several from version 0.13 on", id="old"),
        pytest.param({"image": "vllm:latest"}, {}, "VLLM is started on several from version 0.13 on", id="unknown"),
        pytest.param({}, {"tensor": 4, "pipeline": 3}, "4 x 3 of them fill no whole servers evenly", id="a part"),
        pytest.param({}, {"tensor": 3, "pipeline": 8}, "3 x 8 of them fill no whole servers evenly", id="uneven"),
        pytest.param(NIM | {"image": "nim:1.0.3"}, {}, "NIM is started on one server only", id="NIM 1.x"),
        pytest.param(
            {"type": "TRTLLMServe", "image": "x:1.3.0"},
            {},
            "TRTLLMServe is started on one server only",
            id="trtllm-serve",
        ),
        pytest.param({"type": "Triton", "image": "x:26.07"}, {}, "Triton is started on one server only", id="Triton"),
    ],
)
def test_what_cannot_be_a_group_is_refused_in_one_sentence(
    runtime: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    made = group(runtime, **options)
    gpus = made.configuration.gpus_per_replica

    with pytest.raises(InvalidInput) as refused:
        manifests(made)
    assert str(refused.value).startswith(
        f"hardware.pipelineParallel: a replica of {gpus} GPUs is more than one server has (8), and {why}"
    )


def test_a_nim_makes_a_cluster_of_ray_on_its_leader_and_joins_it_on_its_workers() -> None:
    told = NIM | {"image": "nim:2.1.5", "env": [{"name": "NIM_JSONL_LOGGING", "value": "1"}]}
    leader, worker = (each["containers"][0] for each in pods(group(told)))
    alone = deployment(rendering(told, key(8, 1)))["spec"]["template"]["spec"]["containers"][0]
    logs = [
        next(entry["value"] for entry in each["env"] if entry["name"] == "NIM_JSONL_LOGGING")
        for each in (leader, worker, alone)
    ]

    assert leader["args"] == ["nim-serve-ray", "--head", "--port", "6379"]
    assert worker["args"] == ["nim-serve-ray", "--head-address", "$(LWS_LEADER_ADDRESS):6379"]
    assert all("command" not in each for each in (leader, worker, alone)), "the image's own gets these words"
    assert "args" not in alone
    assert logs == ["0", "0", "1"], "a process of Ray does not start with them, whatever is declared"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"engine": Engine.SGLANG}, "sizing.engine"),
        ({"key": replace(KEY, tensor_parallel=8, attention_data_parallel=2)}, "hardware.attentionDataParallel"),
    ],
    ids=["SGLang inside", "groups of attention"],
)
def test_a_nim_that_cannot_be_a_group_says_why(change: dict[str, Any], field: str) -> None:
    made = group(NIM | {"image": "nim:2.1.5"})
    told = replace(served_replica(made.resource, made.runtime, made.configuration), servers=2)

    assert made.container.start(told).arguments
    with pytest.raises(InvalidInput, match=f"^{field}: NIM is started over several servers"):
        made.container.start(replace(told, **change))


def test_a_name_that_its_pods_cannot_bear_is_refused() -> None:
    made = group()
    named = made.resource.metadata.model_copy(update={"name": "a" * 49})

    with pytest.raises(InvalidInput, match="more than 48 characters"):
        manifests(replace(made, resource=made.resource.model_copy(update={"metadata": named})))


def test_a_group_is_read_back_as_one_replica_with_all_its_gpus() -> None:
    made = group()
    live = leader_worker_set(made)
    live["metadata"]["uid"] = "w-1"
    view = project_workload(LEADER_WORKER_SET, live)

    assert view.gpus_per_replica == made.configuration.gpus_per_replica == 16
    assert view.owner is not None
    assert view.owner.uid == "r-1"


def test_another_image_on_the_workers_is_another_revision() -> None:
    before = leader_worker_set(group())
    after = leader_worker_set(group({"image": "vllm/vllm-openai:v0.34.0"}))

    assert revision_of(before) != revision_of(after)
    assert revision_of(before) == revision_of(leader_worker_set(group({"port": 8000})))
