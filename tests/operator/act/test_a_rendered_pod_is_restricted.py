"""The manifests of `spec.runtime`: what a tenant can put into them, and what no tenant can."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.act.manifests import (
    RESOURCE_LABEL,
    deployment,
    disruption_budget,
    manifests,
    pod_monitor,
)
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.runtimes import CONTAINERS
from firsttoken_sizing.profile import ConfigurationKey
from tests.fixtures.hypothesis_scale import examples
from tests.operator.act.objects import infd

KEY = ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8", tensor_parallel=2)
MINIMAL = {"type": "NIM", "image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.3"}


def rendering(runtime: dict[str, Any] | None = None, key: ConfigurationKey = KEY) -> Rendering:
    document = infd("chat", runtime=MINIMAL | (runtime or {}))
    del document["spec"]["targetRef"]
    document["metadata"] |= {"uid": "r-1", "generation": 1}
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    return Rendering(InferenceDeployment.model_validate(document), key, selector, {"release": "prometheus"}, 15)


def pod(made: Rendering) -> dict[str, Any]:
    found: dict[str, Any] = deployment(made)["spec"]["template"]["spec"]
    return found


def assert_restricted(spec: dict[str, Any]) -> None:
    """The Pod Security Standard `restricted`, for what a manifest of ours can contain."""
    for forbidden in ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "nodeName", "schedulerName"):
        assert forbidden not in spec
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    kinds = {"emptyDir", "persistentVolumeClaim", "ephemeral", "downwardAPI"}
    assert all(set(volume) - {"name"} <= kinds for volume in spec["volumes"])
    (container,) = spec["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert not {"envFrom", "volumeDevices"} & set(container)
    known = next(each for each in CONTAINERS if (each.name, each.command) == _started(container))
    given = [word.partition("=")[0] for word in container.get("args", ()) if word.startswith("-")]
    assert {*given} <= {*known.flags, *known.settable}
    assert all("hostPort" not in port for port in container.get("ports", ()))


def _started(container: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    return container["name"], tuple(container.get("command", ()))


def test_the_smallest_runtime_is_restricted_and_complete() -> None:
    spec = pod(rendering())

    assert_restricted(spec)
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert spec["enableServiceLinks"] is False


def test_what_a_rendered_pod_says_of_its_namespace_is_not_believed() -> None:
    (endpoint,) = pod_monitor(rendering())["spec"]["podMetricsEndpoints"]

    assert endpoint["honorLabels"] is False


def test_replicas_are_in_no_manifest() -> None:
    made = rendering()

    assert "replicas" not in deployment(made)["spec"]
    assert all("replicas" not in manifest["spec"] for manifest in manifests(made))


def test_the_engine_is_told_the_parallelism_that_was_sized() -> None:
    key = ConfigurationKey(KEY.model, KEY.gpu, KEY.precision, tensor_parallel=4, pipeline_parallel=2)
    spec = pod(rendering(key=key))
    env = {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}

    assert (env["NIM_TENSOR_PARALLEL_SIZE"], env["NIM_PIPELINE_PARALLEL_SIZE"]) == ("4", "2")
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_a_cold_start_has_the_time_that_was_given() -> None:
    made = rendering({"startupTimeoutSeconds": 3605})
    probe = pod(made)["containers"][0]["startupProbe"]

    assert probe["failureThreshold"] * probe["periodSeconds"] >= 3605
    assert deployment(made)["spec"]["progressDeadlineSeconds"] > 3605 + probe["initialDelaySeconds"]


def test_a_rollout_is_given_twice_what_starts_of_these_pods_took() -> None:
    def deadline(seconds: float | None) -> int:
        spec = deployment(replace(rendering(), p99_start_seconds=seconds))["spec"]
        return int(spec["progressDeadlineSeconds"])

    assert [deadline(seconds) for seconds in (None, 40.0, 1800.0, 1801.0, 2090.0, 2101.0)] == [
        3600, 3600, 3600, 4200, 4200, 4800,
    ]  # fmt: skip


def test_nodes_are_chosen_by_the_labels_of_the_gpu_where_none_are_named() -> None:
    spec = pod(replace(rendering(), node_selector={}, gpu_products=("NVIDIA-B300-SXM6-AC", "NVIDIA-B300-SXM6-PC")))
    chosen = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert "nodeSelector" not in spec
    assert chosen[0]["matchExpressions"][0] == {
        "key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-B300-SXM6-AC", "NVIDIA-B300-SXM6-PC"],
    }  # fmt: skip


def test_nodes_are_drained_one_replica_at_a_time() -> None:
    spec = disruption_budget(rendering())["spec"]

    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert spec["selector"] == deployment(rendering())["spec"]["selector"]


def test_a_volume_of_its_own_comes_and_goes_with_the_pod() -> None:
    volume = pod(rendering({"modelCache": {"perReplica": {"size": "100Gi"}}}))["volumes"][1]

    assert volume["ephemeral"]["volumeClaimTemplate"]["spec"] == {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}},
    }  # fmt: skip


@pytest.mark.parametrize("grace_seconds", [10, 15, 120])
def test_a_pod_keeps_time_for_its_answers_after_the_sleep(grace_seconds: int) -> None:
    spec = pod(rendering({"terminationGracePeriodSeconds": grace_seconds}))
    sleep = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert 0 < sleep <= 10
    assert spec["terminationGracePeriodSeconds"] - sleep >= grace_seconds / 2


def test_a_rollout_takes_no_spare_gpu() -> None:
    assert deployment(rendering())["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0


def test_the_selector_does_not_depend_on_anything_that_may_change() -> None:
    before = deployment(rendering())["spec"]["selector"]
    after = deployment(rendering({"image": "other:2", "port": 9000}))["spec"]["selector"]

    assert before == after == {"matchLabels": {RESOURCE_LABEL: "chat"}}


def test_every_object_is_owned_by_the_resource() -> None:
    made = rendering()
    for manifest in manifests(made):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("r-1", True, True)


def test_secrets_are_referred_to_and_never_read() -> None:
    made = rendering({"authSecret": {"name": "ngc"}, "imagePullSecrets": ["pull"]})
    first = pod(made)["containers"][0]["env"][0]

    assert first == {
        "name": "NGC_API_KEY",
        "valueFrom": {"secretKeyRef": {"name": "ngc", "key": "NGC_API_KEY"}},
    }
    assert pod(made)["imagePullSecrets"] == [{"name": "pull"}]


@pytest.mark.parametrize(("metrics_port", "name", "ports"), [(None, "api", 1), (8000, "api", 1), (8002, "metrics", 2)])
def test_the_pod_monitor_names_the_port_that_has_the_metrics(metrics_port: int | None, name: str, ports: int) -> None:
    made = rendering({"metricsPort": metrics_port} if metrics_port else {})
    monitor = pod_monitor(made)

    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == name
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert len(pod(made)["containers"][0]["ports"]) == ports


names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
SERVERS = st.sampled_from(
    [
        ("NIM", "nim:1.0.3", "NIM_X_"), ("NIM", "nim:2.1.5", "NIM_X_"), ("VLLM", "vllm:v0.33.0", "VLLM_X_"),
        ("VLLM", "vllm:latest", "NCCL_X_"), ("SGLang", "sglang:v0.5.23", "SGLANG_X_"),
        ("TRTLLMServe", "trtllm:1.3.0", "TLLM_X_"), ("Triton", "triton:26.07", "TRTLLM_X_"),
    ]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    server=SERVERS,
    env=st.dictionaries(st.from_regex(r"[A-Z]{1,6}", fullmatch=True), st.text(max_size=20), max_size=4),
    node_selector=st.dictionaries(names, names, max_size=3),
    tolerations=st.lists(st.builds(dict, key=names, operator=st.sampled_from(["Exists", "Equal"])), max_size=3),
    cache=st.none() | st.builds(dict, claimName=names) | st.builds(dict, perReplica=st.just({"size": "1Gi"})),
    runtime_class=st.none() | names,
)
def test_whatever_the_resource_says_the_pod_is_restricted(
    server: tuple[str, str, str],
    env: dict[str, str],
    node_selector: dict[str, str],
    tolerations: list[dict[str, str]],
    cache: dict[str, Any] | None,
    runtime_class: str | None,
) -> None:
    kind, image, prefix = server
    runtime: dict[str, Any] = {
        "type": kind,
        "image": image,
        "checkpoint": None if kind == "NIM" else "a/checkpoint",
        "env": [{"name": prefix + name, "value": value} for name, value in env.items()],
        "nodeSelector": node_selector,
        "tolerations": tolerations,
    }
    if cache:
        runtime["modelCache"] = cache
    if runtime_class:
        runtime["runtimeClassName"] = runtime_class
    made = rendering(runtime)

    assert_restricted(pod(made))
    assert deployment(made) == copy.deepcopy(deployment(made))
