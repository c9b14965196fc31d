"""`firsttoken size -o flags`, and that it is what `spec.runtime` renders."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from firsttoken_operator.api.documents import parse_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.served import served_replica
from firsttoken_operator.cli import main
from firsttoken_operator.observe.resources import read_resource
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SETTINGS = {"maxBatchSize": 48, "maxBatchedTokens": 4096, "kvCacheType": "FP8", "gpuMemoryPercent": 80}


def declared(engine: str | None = None, runtime: dict[str, object] | None = None, **sizing: object) -> str:
    spec: dict[str, object] = {
        "model": {"name": LLAMA, "precision": "BF16"},
        "traffic": {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": 20},
        "sla": {"interTokenLatency": {"milliseconds": 50}},
        "hardware": {"gpus": ["H100-SXM-80GB"], "tensorParallel": 2},
        "sizing": {**({"engine": engine} if engine else {}), "engineSettings": SETTINGS, **sizing},
    }
    spec |= {"runtime": runtime} if runtime else {"targetRef": {"name": "chat"}}
    document = {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "chat", "namespace": "team"},
        "spec": spec,
    }
    return yaml.safe_dump(document)


def flags(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> str:
    file = tmp_path / "chat.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["size", "-f", str(file), "-o", "flags"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (
            "vLLM",
            (
                *("# VLLM ", "vllm serve", "--max-num-seqs=48", "--max-num-batched-tokens=4096"),
                *("--gpu-memory-utilization=0.8", "--kv-cache-dtype=fp8", "--tensor-parallel-size=2"),
                *("# NIM 2.0", "NIM_PASSTHROUGH_ARGS='--tensor-parallel-size=2"),
            ),
        ),
        (
            "SGLang",
            (
                *("# SGLang ", "sglang.launch_server", "--max-running-requests=48", "--chunked-prefill-size=4096"),
                *("--mem-fraction-static=0.8", "--kv-cache-dtype=fp8_e4m3", "--tp-size=2"),
            ),
        ),
        (
            "TensorRT-LLM",
            (
                *("# TRTLLMServe ", "trtllm-serve", "--max_batch_size=48", "--max_num_tokens=4096", "--tp_size=2"),
                *("--kv_cache_free_gpu_memory_fraction=0.8", '"dtype": "fp8"', "# Triton "),
                "# NIM 1.0 or later: sizing.engineSettings: NIM 1.x takes no settings",
            ),
        ),
    ],
)
def test_each_server_of_the_engine_has_its_flags(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, expected: tuple[str, ...]
) -> None:
    out = flags(capsys, tmp_path, declared(engine))

    assert [word for word in expected if word not in out] == []


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("vLLM", '--speculative-config={"method":"ngram","num_speculative_tokens":3'),
        ("SGLang", "--speculative-num-draft-tokens=3"),
        ("TensorRT-LLM", '"speculative_config": {"decoding_type": "NGram", "max_draft_len": 3'),
    ],
)
def test_speculative_decoding_that_was_sized_is_what_the_server_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, expected: str
) -> None:
    drafts = {"draftTokens": 3, "acceptancePercent": 60}

    assert expected in flags(capsys, tmp_path, declared(engine, speculativeDecoding=drafts))
    assert "speculative" not in flags(capsys, tmp_path, declared(engine))


def test_a_runtime_is_rendered_with_the_same_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = declared(runtime={"type": "VLLM", "image": "vllm/vllm-openai:v0.32.0"})
    out = flags(capsys, tmp_path, text)

    (deployment,) = parse_documents(text).deployments
    assert deployment.spec.runtime is not None
    key = ConfigurationKey(LLAMA, "H100-SXM-80GB", "BF16", 2)
    replica = served_replica(deployment, deployment.spec.runtime, key)
    start = deployment.spec.runtime.release.container.start(replica)
    assert "--max-num-seqs=48" in start.arguments
    assert [word for word in start.arguments if "'" not in word and "{" not in word and word not in out] == []


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (declared("TensorRT-LLM", runtime={"type": "NIM", "image": "nim:1.8"}), "sizing.engineSettings"),
    ],
)
def test_a_server_that_cannot_be_told_is_refused(text: str, field: str) -> None:
    (deployment,) = parse_documents(text).deployments
    assert deployment.spec.runtime is not None
    replica = served_replica(deployment, deployment.spec.runtime, ConfigurationKey(LLAMA, "H100-SXM-80GB", "BF16", 2))

    with pytest.raises(InvalidInput, match=rf"^{field}: NIM 1.x takes no settings"):
        deployment.spec.runtime.release.container.start(replica)


@pytest.mark.parametrize("flag", ["--enforce-eager", "--speculative-config={}"])
def test_a_flag_that_changes_the_speed_that_was_sized_is_refused(flag: str) -> None:
    text = declared(runtime={"type": "VLLM", "image": "vllm/vllm-openai:v0.32.0", "flags": [flag]})

    with pytest.raises(Exception, match=r"runtime\.flags of VLLM takes"):
        parse_documents(text)


STORED_BEFORE = {
    "a flag that was taken once": ({"type": "VLLM", "flags": ["--enforce-eager"]}, "--enforce-eager"),
    "drafts of its own": ({"type": "VLLM", "flags": ["--speculative-config={}"]}, "--speculative-config={}"),
    "memory that shared memory fills": ({"type": "VLLM", "resources": {"memory": "16Gi"}}, ""),
    "a flag of a NIM": ({"type": "NIM", "image": "nim:2.0", "flags": ["--enforce-eager"]}, "--enforce-eager"),
}


@pytest.mark.parametrize(("runtime", "flag"), STORED_BEFORE.values(), ids=STORED_BEFORE)
def test_what_was_taken_once_is_refused_anew_and_rendered_where_it_is_stored(
    runtime: dict[str, object], flag: str
) -> None:
    text = declared(runtime={"image": "vllm/vllm-openai:v0.32.0"} | runtime)
    with pytest.raises(Exception, match=r"runtime\."):
        parse_documents(text)
    body = yaml.safe_load(text)
    body["metadata"] |= {"uid": "u", "generation": 1}
    stored = read_resource(InferenceDeployment, body)

    assert stored.problem == ""
    assert stored.parsed is not None
    assert stored.parsed.spec.runtime is not None
    key = ConfigurationKey(LLAMA, "H100-SXM-80GB", "BF16", 2)
    replica = served_replica(stored.parsed, stored.parsed.spec.runtime, key)
    start = stored.parsed.spec.runtime.release.container.start(replica)
    assert flag in " ".join((*start.arguments, *start.environment.values()))


def test_a_flag_that_was_never_taken_is_not_read_either() -> None:
    body = yaml.safe_load(declared(runtime={"type": "VLLM", "image": "v:v0.32.0", "flags": ["--host=0.0.0.0"]}))
    body["metadata"] |= {"uid": "u", "generation": 1}

    assert "runtime.flags of VLLM takes" in read_resource(InferenceDeployment, body).problem


def test_a_nim_whose_profile_drafts_is_rendered_as_without() -> None:
    starts = []
    for sizing in ({}, {"speculativeDecoding": {"draftTokens": 3, "acceptancePercent": 60}}):
        runtime: dict[str, object] = {"type": "NIM", "image": "nim:1.8"}
        (deployment,) = parse_documents(declared("TensorRT-LLM", runtime, engineSettings={}, **sizing)).deployments
        assert deployment.spec.runtime is not None
        key = ConfigurationKey(LLAMA, "H100-SXM-80GB", "BF16", 2)
        replica = served_replica(deployment, deployment.spec.runtime, key)
        starts.append(deployment.spec.runtime.release.container.start(replica))

    assert starts[0] == starts[1]
