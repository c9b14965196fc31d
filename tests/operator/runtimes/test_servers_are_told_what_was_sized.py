"""Each server runs the replica that was sized: parallelism, batch, lengths, precision of weights and of the cache."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.served import served_replica
from firsttoken_operator.runtimes import RuntimeType, nim1, nim2, sglang, triton, trtllm_serve, vllm
from firsttoken_operator.runtimes.replica import longest_tokens, replica_settings
from firsttoken_operator.runtimes.spec import ContainerSpec, ServerRelease, version_of
from firsttoken_operator.runtimes.weights import weights_of
from firsttoken_sizing.catalog import gpus, models, resolve_model
from firsttoken_sizing.declared import DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize import size
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Batching, DraftMethod
from tests.fixtures.hypothesis_scale import examples
from tests.operator.act.objects import infd
from tests.operator.runtimes.replicas import KEY, MODEL, served

ONE = ConfigurationKey(MODEL.name, "H100-SXM-80GB", "BF16")


def words(container: ContainerSpec, **fields: Any) -> str:
    """Command line, variables and files of a start, as one text."""
    start = container.start(served(container, **fields))
    return "\n".join((*start.command, *start.arguments, *start.environment.values(), *start.files.values()))


@pytest.mark.parametrize(
    ("container", "told"),
    [
        (nim1.CONTAINER, ()),
        (nim2.CONTAINER, ("--tensor-parallel-size=4", "--pipeline-parallel-size=2", "--max-num-seqs=256",
                          "--max-model-len=131072", "--kv-cache-dtype=auto", "--max-num-batched-tokens=8192")),
        (vllm.CONTAINER, ("--tensor-parallel-size=4", "--pipeline-parallel-size=2", "--max-num-seqs=256",
                          "--max-model-len=131072", "--kv-cache-dtype=auto", "--max-num-batched-tokens=8192")),
        (sglang.CONTAINER, ("--tp-size=4", "--pp-size=2", "--max-running-requests=256", "--context-length=131072",
                            "--kv-cache-dtype=auto", "--chunked-prefill-size=8192", "--mem-fraction-static=")),
        (trtllm_serve.CONTAINER, ("--tp_size=4", "--pp_size=2", "--max_batch_size=256", "--max_seq_len=131072",
                                  '"dtype": "fp8"', "--max_num_tokens=32768", '"return_perf_metrics": true')),
        (triton.CONTAINER, ('"tensor_parallel_size": 4', '"pipeline_parallel_size": 2', '"max_batch_size": 256',
                            '"max_seq_len": 131072', '"dtype": "fp8"', '"decoupled": true')),
    ],
    ids=["NIM 1.x", "NIM 2.x", "vLLM", "SGLang", "trtllm-serve", "Triton"],
)  # fmt: skip
def test_a_server_is_told_the_parallelism_the_batch_the_lengths_and_the_cache(
    container: ContainerSpec, told: tuple[str, ...]
) -> None:
    text = words(container)

    assert [word for word in told if word not in text] == []


GROUPS = replace(KEY, pipeline_parallel=1, attention_data_parallel=4)


@pytest.mark.parametrize(
    ("container", "told"),
    [
        (nim2.CONTAINER, ("--tensor-parallel-size=1", "--data-parallel-size=4", "--enable-expert-parallel")),
        (vllm.CONTAINER, ("--tensor-parallel-size=1", "--data-parallel-size=4", "--enable-expert-parallel",
                          "--max-num-seqs=256", "--max-num-batched-tokens=8192")),
        (sglang.CONTAINER, ("--tp-size=4", "--dp-size=4", "--enable-dp-attention", "--ep-size=4",
                            "--max-running-requests=256")),
        (trtllm_serve.CONTAINER, ("--tp_size=4", '"enable_attention_dp": true', '"moe_expert_parallel_size": 4',
                                  "--max_batch_size=256")),
        (triton.CONTAINER, ('"tensor_parallel_size": 4', '"enable_attention_dp": true',
                            '"moe_expert_parallel_size": 4')),
    ],
    ids=["NIM 2.x", "vLLM", "SGLang", "trtllm-serve", "Triton"],
)  # fmt: skip
def test_a_server_is_told_its_groups_of_attention(container: ContainerSpec, told: tuple[str, ...]) -> None:
    text = words(container, key=GROUPS)

    assert [word for word in told if word not in text] == []
    assert "data-parallel-size" not in words(vllm.CONTAINER)


@pytest.mark.parametrize(
    ("container", "told"),
    [
        (vllm.CONTAINER, ('--speculative-config={"method":"mtp","num_speculative_tokens":2}',)),
        (sglang.CONTAINER, ("--speculative-algorithm=EAGLE", "--speculative-num-steps=2",
                            "--speculative-eagle-topk=1", "--speculative-num-draft-tokens=3")),
        (trtllm_serve.CONTAINER, ('"decoding_type": "MTP"', '"num_nextn_predict_layers": 2')),
        (triton.CONTAINER, ('"decoding_type": "MTP"', '"num_nextn_predict_layers": 2')),
    ],
    ids=["vLLM", "SGLang", "trtllm-serve", "Triton"],
)  # fmt: skip
def test_a_server_is_told_to_predict_with_the_layers_of_the_checkpoint(
    container: ContainerSpec, told: tuple[str, ...]
) -> None:
    text = words(container, drafts=2, draft_method=DraftMethod.MTP)

    assert [word for word in told if word not in text] == []


def test_a_server_is_told_no_request_that_no_group_of_attention_holds() -> None:
    """A vLLM whose `--max-model-len` is above what the cache of one rank holds does not start."""
    told = 0
    for model in models():
        for gpu in gpus() if model.experts else ():
            key = ConfigurationKey(model.name, gpu.name, "FP8", 8, attention_data_parallel=8)
            half = model.max_context_tokens / 2
            memory = replica_memory(
                model,
                gpu,
                precision="FP8",
                tensor_parallel=8,
                attention_data_parallel=8,
                input_tokens=half,
                output_tokens=half,
                engine=Engine.VLLM,
            )
            if memory.kv_cache_tokens_per_group >= 2200:
                told += 1
                assert longest_tokens(model, key, Engine.VLLM, 2200) <= memory.kv_cache_tokens_per_group
    assert told > 20


def test_nim_1_has_no_groups_of_attention() -> None:
    with pytest.raises(InvalidInput, match=r"attentionDataParallel: NIM 1\.x has no attention data parallelism"):
        nim1.CONTAINER.start(served(nim1.CONTAINER, key=GROUPS))


def test_vllm_has_no_groups_of_attention_over_several_servers() -> None:
    with pytest.raises(InvalidInput, match="attentionDataParallel: vLLM is started over several servers without"):
        vllm.CONTAINER.start(served(vllm.CONTAINER, key=GROUPS, servers=2))


def test_nim_1_picks_its_profile_for_the_parallelism() -> None:
    environment = nim1.CONTAINER.start(served(nim1.CONTAINER)).environment

    assert (environment["NIM_TENSOR_PARALLEL_SIZE"], environment["NIM_PIPELINE_PARALLEL_SIZE"]) == ("4", "2")


def test_nim_2_with_sglang_inside_is_told_in_its_words() -> None:
    told = replica_settings(MODEL, KEY, Engine.SGLANG, None, prefix_caching=False)

    assert "--max-running-requests=256" in words(nim2.CONTAINER, engine=Engine.SGLANG, settings=told)


@pytest.mark.parametrize(
    ("image", "declared", "version"),
    [
        ("vllm/vllm-openai:v0.33.0", None, (0, 33, 0)),
        ("nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3", None, (26, 7)),
        ("registry:5000/vllm", None, None),
        ("registry:5000/vllm:latest", None, None),
        ("vllm/vllm-openai@sha256:ab12", None, None),
        ("vllm/vllm-openai:v0.33.0@sha256:ab12", None, (0, 33, 0)),
        ("vllm/vllm-openai:nightly", "0.34", (0, 34)),
    ],
)
def test_the_version_is_that_of_the_tag_unless_declared(
    image: str, declared: str | None, version: tuple[int, ...] | None
) -> None:
    assert version_of(image, declared) == version


@pytest.mark.parametrize(
    ("version", "container"),
    [(None, nim1.CONTAINER), ((1, 12, 0), nim1.CONTAINER), ((2, 0, 1), nim2.CONTAINER), ((3, 0, 0), nim2.CONTAINER)],
)
def test_the_version_tells_which_nim_it_is(version: tuple[int, ...] | None, container: ContainerSpec) -> None:
    assert RuntimeType.NIM.spec.release(version).container is container


@pytest.mark.parametrize("version", [None, (0, 19, 9), (0, 20), (0, 31, 9), (0, 32, 0)])
def test_a_flag_is_given_only_to_a_vllm_that_has_it(version: tuple[int, ...] | None) -> None:
    start = vllm.CONTAINER.start(served(vllm.CONTAINER, version=version))
    text = " ".join(start.arguments)

    assert ("--shutdown-timeout=105" in text) == start.drains == ((version or ()) >= (0, 20))
    assert ("--custom-histogram-buckets" in text) == ((version or ()) >= (0, 32))


def test_the_limit_is_a_bound_of_the_histogram() -> None:
    flag = next(a for a in vllm.CONTAINER.start(served(vllm.CONTAINER)).arguments if "buckets" in a)
    bounds = json.loads(flag.partition("=")[2])["time_to_first_token"]
    told = " ".join(sglang.CONTAINER.start(served(sglang.CONTAINER)).arguments)
    numbers = [float(n) for n in re.search(r"--bucket-time-to-first-token((?: [\d.]+)+)", told)[1].split()]  # type: ignore[index]

    assert 0.3 in bounds
    assert bounds == sorted(set(bounds))
    assert 0.3 in numbers
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("limit_seconds", [None, 1.0])
@pytest.mark.parametrize("container", [vllm.CONTAINER, sglang.CONTAINER], ids=["vLLM", "SGLang"])
def test_bounds_that_hold_the_limit_already_stay(container: ContainerSpec, limit_seconds: float | None) -> None:
    assert "bucket" not in words(container, ttft_limit_seconds=limit_seconds)


@pytest.mark.parametrize(
    ("container", "precision", "flags"),
    [
        (vllm.CONTAINER, "BF16", ["--dtype=bfloat16"]),
        (vllm.CONTAINER, "FP16", ["--dtype=float16"]),
        (vllm.CONTAINER, "FP8", ["--quantization=fp8"]),
        (sglang.CONTAINER, "FP8", ["--quantization=fp8"]),
        (sglang.CONTAINER, "BF16", ["--dtype=bfloat16"]),
    ],
)
def test_weights_become_what_was_sized(container: ContainerSpec, precision: str, flags: list[str]) -> None:
    start = container.start(served(container, replace(KEY, precision=precision), checkpoint=None))

    assert [a for a in start.arguments if a.startswith(("--dtype", "--quantization"))] == flags


@pytest.mark.parametrize(
    ("container", "precision"),
    [(vllm.CONTAINER, "NVFP4"), (sglang.CONTAINER, "INT4"), (trtllm_serve.CONTAINER, "FP8"), (triton.CONTAINER, "FP8")],
)
def test_weights_that_a_server_cannot_make_have_to_be_named(container: ContainerSpec, precision: str) -> None:
    key = replace(KEY, precision=precision)
    with pytest.raises(InvalidInput, match=rf"runtime.checkpoint: missing: .* makes no {precision}; name a checkpoint"):
        container.start(served(container, key, checkpoint=None))

    assert "a/checkpoint" in words(container, key=key)


@pytest.mark.parametrize(("model", "precision"), [("deepseek-ai/DeepSeek-V3", "FP8"), ("openai/gpt-oss-120b", "MXFP4")])
def test_weights_in_their_published_precision_are_loaded_as_they_are(model: str, precision: str) -> None:
    weights = weights_of(resolve_model(model), precision, None)

    assert (weights.source, weights.conversion("any server", {})) == (model, "")


def test_a_request_may_be_as_long_as_memory_holds_and_never_shorter_than_declared() -> None:
    model = resolve_model("meta-llama/Llama-3.3-70B-Instruct")
    key = ConfigurationKey(model.name, "H100-SXM-80GB", "FP8", tensor_parallel=1)
    wide = replace(key, tensor_parallel=4)
    short = longest_tokens(model, replace(key, gpu="H200-SXM-141GB"), Engine.VLLM, 1000)

    assert longest_tokens(model, wide, Engine.VLLM, 1000) == model.max_context_tokens
    assert 0 < short <= model.max_context_tokens
    assert short % 1024 == 0
    assert longest_tokens(model, key, Engine.VLLM, 1000.5) == 1001


def resource(**spec: Any) -> InferenceDeployment:
    runtime = {"type": "VLLM", "image": "vllm/vllm-openai:v0.33.0"}
    document = infd("chat", runtime=runtime, sizing={"engine": "vLLM"}) | {}
    del document["spec"]["targetRef"]
    document["spec"] |= spec
    return InferenceDeployment.model_validate(document)


@pytest.mark.parametrize(
    "change",
    [
        {"traffic": {"inputTokens": 4000, "outputTokens": 900, "peakRequestsPerSecond": "3"}},
        {"scaling": {"maxReplicas": 40}},
    ],
)
def test_another_load_changes_no_replica(change: dict[str, Any]) -> None:
    before, after = resource(), resource(**change)
    assert before.spec.runtime is not None

    assert served_replica(before, before.spec.runtime, KEY) == served_replica(after, before.spec.runtime, KEY)


def test_a_replica_runs_as_the_size_says() -> None:
    declared = resource()
    sized = size(sizing_request(declared, {}, ()))
    assert declared.spec.runtime is not None
    assert sized.configuration is not None
    told = served_replica(declared, declared.spec.runtime, sized.configuration).settings

    # The batch is that of the release: where fewer fit, memory admits fewer.
    assert {**told, "max_num_seqs": None} == {
        name: None if name == "max_num_seqs" else value
        for name, value in sized.engine_settings.items()
        if name not in ("engine", "batching")
    }
    assert told["max_num_seqs"] == Engine.VLLM.spec.release().max_batch >= sized.engine_settings["max_num_seqs"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"sizing": {"engine": "SGLang"}}, "sizing.engine: VLLM runs no SGLang; set it to vLLM"),
        ({"sizing": {"batching": ["InFlight", "ChunkedPrefill"]}}, "sizing.batching: a replica runs one way"),
    ],
)
def test_what_the_server_cannot_be_is_refused_with_the_field(spec: dict[str, Any], message: str) -> None:
    declared = resource(**spec)
    assert declared.spec.runtime is not None

    with pytest.raises(InvalidInput, match=re.escape(message)):
        served_replica(declared, declared.spec.runtime, KEY)


def test_gpus_that_pods_cannot_ask_for_are_refused() -> None:
    declared = resource()
    assert declared.spec.runtime is not None

    with pytest.raises(InvalidInput, match=r"hardware.gpus: MI300X-192GB is no nvidia.com/gpu"):
        served_replica(declared, declared.spec.runtime, replace(ONE, gpu="MI300X-192GB"))


def test_the_way_of_batching_that_is_declared_is_the_one_that_runs() -> None:
    told = {
        batching: replica_settings(MODEL, KEY, Engine.VLLM, batching, prefix_caching=False)
        for batching in (Batching.IN_FLIGHT, Batching.CHUNKED_PREFILL)
    }

    assert "--no-enable-chunked-prefill" in words(vllm.CONTAINER, settings=told[Batching.IN_FLIGHT])
    assert "--no-enable-chunked-prefill" not in words(vllm.CONTAINER, settings=told[Batching.CHUNKED_PREFILL])


@given(
    batching=st.sampled_from([None, Batching.IN_FLIGHT, Batching.CHUNKED_PREFILL]),
    max_batch=st.none() | st.integers(1, 65_536),
    tokens_per_step=st.none() | st.integers(16, 1_048_576),
    longest=st.integers(1, 131_072),
)
@settings(max_examples=examples(50))
def test_vllm_starts_with_every_setting_that_can_be_declared(
    batching: Batching | None, max_batch: int | None, tokens_per_step: int | None, longest: int
) -> None:
    """Its own checks (`SchedulerConfig`): a step has a token for each sequence, and holds what it must not cut."""
    declared = DeclaredSettings(max_batch=max_batch, tokens_per_step=tokens_per_step)
    told = replica_settings(MODEL, KEY, Engine.VLLM, batching, prefix_caching=False, declared=declared)

    text = words(vllm.CONTAINER, settings=told, longest_tokens=longest)

    sequences, tokens = (int(re.search(rf"--max-num-{name}=(\d+)", text)[1]) for name in ("seqs", "batched-tokens"))  # type: ignore[index]
    assert sequences <= tokens
    assert longest <= tokens or "--no-enable-chunked-prefill" not in text


SERVERS = [(runtime, release) for runtime in RuntimeType for release in runtime.spec.releases]


@pytest.mark.parametrize("ways", [None, 8, 16])
@pytest.mark.parametrize(("runtime", "release"), SERVERS, ids=[f"{r} {s.since}" for r, s in SERVERS])
def test_a_server_can_start_what_is_answered_where_no_layout_is_declared(
    runtime: RuntimeType, release: ServerRelease, ways: int | None
) -> None:
    version = ".".join(map(str, release.since))
    image = {"type": runtime.value, "image": "a/server:latest", "version": version, "checkpoint": "a/checkpoint"}
    asked = resource(
        runtime=image,
        sizing={},
        model={"name": "Qwen/Qwen3-235B-A22B", "precision": "FP8"},
        sla={"timeToFirstToken": {"milliseconds": 10_000}},
        hardware={"gpus": ["H200-SXM-141GB"]} | ({"tensorParallel": ways} if ways else {}),
    )
    answer, declared = size(sizing_request(asked, {}, [])), asked.spec.runtime
    assert answer.feasible
    assert answer.configuration is not None
    assert declared is not None

    servers = math.ceil(answer.configuration.gpus_per_replica / 8)
    server = replace(served_replica(asked, declared, answer.configuration), servers=servers)
    assert declared.release.container.start(server)
