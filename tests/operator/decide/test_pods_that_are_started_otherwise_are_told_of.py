"""`SettingsMatch`: what was sized against what the pods are started with. What cannot be read says nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.decide import Memory, decide, judge
from firsttoken_operator.domain import (
    ConditionType,
    Decision,
    FleetSnapshot,
    Judgement,
    Reason,
    ResourceSnapshot,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.runtimes import CONTAINERS
from firsttoken_operator.runtimes.replica import replica_settings
from firsttoken_operator.runtimes.settings import SizedSettings, Started, StartSettings
from firsttoken_operator.runtimes.sized import sized_settings
from firsttoken_operator.runtimes.spec import ContainerSpec
from firsttoken_operator.runtimes.started import Words, started
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import DraftMethod, SpeculativeDecoding, Workload
from tests.operator.decide.builders import SIZED, metrics, resource, target
from tests.operator.runtimes.replicas import KEY, MODEL, release_of, served

LOAD = Workload(input_tokens=2000, output_tokens=200, input_tokens_p99=7000, output_tokens_p99=900)
ONE = ConfigurationKey(MODEL.name, "H100-SXM-80GB", "BF16")
ALL = frozenset(field.name for field in fields(StartSettings))


def sized(
    key: ConfigurationKey = ONE,
    engine: Engine = Engine.VLLM,
    declared: DeclaredSettings = AS_INSTALLED,
    draft_tokens: int = 0,
    method: DraftMethod = DraftMethod.N_GRAM,
) -> SizedSettings:
    drafts = SpeculativeDecoding(draft_tokens, 70, method) if draft_tokens else None
    return sized_settings(MODEL, key, engine, None, load=LOAD, declared=declared, drafts=drafts)


def about(settings: SizedSettings | None, start: Started | None, **pods: Any) -> ResourceSnapshot:
    return resource(target(4, started=start, **pods), metrics(20.0), sized=replace(SIZED, settings=settings))


def decided(snapshot: ResourceSnapshot) -> Decision:
    (made,), _ = decide(FleetSnapshot(0.0, 15.0, (snapshot,)), Memory())
    return made


def judged(snapshot: ResourceSnapshot) -> Judgement | None:
    found = judge(snapshot, decided(snapshot))
    return next((each for each in found if each.kind is ConditionType.SETTINGS_MATCH), None)


def of(*flags: str, settings: SizedSettings | None = None, **pods: Any) -> Judgement | None:
    start = started(Words(command=("vllm", "serve", "a"), arguments=flags))
    return judged(about(sized() if settings is None else settings, start, **pods))


@pytest.mark.parametrize("declared", [AS_INSTALLED, DeclaredSettings(48, 4096, 8, 0.8)], ids=["installed", "declared"])
@pytest.mark.parametrize(
    "container",
    [c for c in CONTAINERS if c.options and c.options.tensor_parallel],
    ids=lambda container: container.name,
)
def test_what_is_rendered_is_what_was_sized(container: ContainerSpec, declared: DeclaredSettings) -> None:
    engine = release_of(container).engines[0]
    options = replica_settings(MODEL, KEY, engine, None, prefix_caching=True, declared=declared)
    start = container.start(served(container, settings=options, drafts=3, is_as_installed=False))
    words = Words(command=start.command, arguments=start.arguments, environment=start.environment)
    found = judged(about(sized(KEY, engine, declared, draft_tokens=3), started(words)))

    assert found is not None
    assert (found.holds, found.reason) == (True, Reason.SETTINGS_MATCH)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("-tp=2",), "tensor parallelism: sized 1, started with 2 (hardware.tensorParallel)"),
        (("-pp=2",), "pipeline parallelism: sized 1, started with 2 (hardware.pipelineParallel)"),
        (
            ("--data-parallel-size=2",),
            "groups of attention: sized 1, started with 2 (hardware.attentionDataParallel)",
        ),
        (("--max-model-len=4096",), "tokens of a request: sized 7900, started with 4096 (traffic)"),
        (("--max-num-seqs=64",), "sequences at once: sized 256, started with 64 (sizing.engineSettings.maxBatchSize)"),
        (
            ("--max-num-batched-tokens=2048",),
            "tokens of a step: sized 8192, started with 2048 (sizing.engineSettings.maxBatchedTokens)",
        ),
        (
            ("--kv-cache-dtype=fp8",),
            "bits of the KV cache: sized 16, started with 8 (sizing.engineSettings.kvCacheType)",
        ),
        (
            ("--gpu-memory-utilization=0.8",),
            "share of memory: sized 0.9, started with 0.8 (sizing.engineSettings.gpuMemoryPercent)",
        ),
        (
            ('--speculative-config={"num_speculative_tokens":3}',),
            "speculative decoding: sized off, started with on (sizing.speculativeDecoding)",
        ),
        (
            ("-tp=2", "--max-num-seqs=64"),
            "tensor parallelism: sized 1, started with 2 (hardware.tensorParallel); sequences at once: sized 256, "
            "started with 64 (sizing.engineSettings.maxBatchSize)",
        ),
    ],
)
def test_each_setting_that_differs_is_told_with_both_values(flags: tuple[str, ...], said: str) -> None:
    found = of(*flags)

    assert found is not None
    assert (found.holds, found.reason) == (False, Reason.SETTINGS_DIFFER)
    assert found.message == f"{said}; declare what runs, or start the pods with what was sized"


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--max-num-seqs=256", "--kv-cache-dtype=auto", "--gpu-memory-utilization=0.90"),
        ("--kv-cache-dtype=bfloat16",),
        ("--gpu-memory-utilization=0.901",),
        ("--max-model-len=7900",),
        ("--max-model-len=131072",),
        ("--max-num-seqs=$SEQUENCES",),
        ("--enforce-eager",),
    ],
)
def test_what_is_the_same_or_cannot_be_read_is_no_difference(flags: tuple[str, ...]) -> None:
    found = of(*flags)

    assert found is not None
    assert (found.holds, found.reason) == (True, Reason.SETTINGS_MATCH)


def test_what_is_declared_and_left_to_the_engine_differs() -> None:
    found = of("--max-num-seqs=48", settings=sized(declared=DeclaredSettings(48, 4096), draft_tokens=3))

    assert found is not None
    assert found.message == (
        "tokens of a step: sized 4096, left to the engine (8192) (sizing.engineSettings.maxBatchedTokens); "
        "speculative decoding: sized on, left to the engine (off) (sizing.speculativeDecoding); "
        "declare what runs, or start the pods with what was sized"
    )


def test_other_drafts_differ() -> None:
    found = of('--speculative-config={"num_speculative_tokens":5}', settings=sized(draft_tokens=3))

    assert found is not None
    assert found.message.startswith(
        "draft tokens: sized 3, started with 5 (sizing.speculativeDecoding.draftTokens); declare"
    )


@pytest.mark.parametrize("named", ["mtp", "deepseek_mtp", "ngram", "eagle3"])
@pytest.mark.parametrize("method", DraftMethod)
def test_another_draft_method_differs(method: DraftMethod, named: str) -> None:
    flag = f'--speculative-config={{"method":"{named}","num_speculative_tokens":1}}'
    found = of(flag, settings=sized(draft_tokens=1, method=method))
    runs = {"mtp": "MTP", "deepseek_mtp": "MTP", "ngram": "NGram"}.get(named, named)

    assert found is not None
    assert found.reason is (Reason.SETTINGS_MATCH if runs == method else Reason.SETTINGS_DIFFER)
    told = f"draft method: sized {method}, started with {runs} (sizing.speculativeDecoding.method)"
    assert (told in found.message) == (runs != method)


def test_n_grams_of_sglang_are_no_layers_of_the_checkpoint() -> None:
    words = Words(command=("sglang", "serve"), arguments=("--speculative-algorithm=NGRAM",))
    found = judged(about(sized(engine=Engine.SGLANG, draft_tokens=1, method=DraftMethod.MTP), started(words)))

    assert found is not None
    assert found.message.startswith("draft method: sized MTP, started with NGram")


def test_of_another_engine_only_what_means_the_same_is_compared() -> None:
    found = of("-tp=2", "--max-num-seqs=64", settings=sized(engine=Engine.TENSORRT_LLM))

    assert found is not None
    assert found.message == (
        "engine: sized TensorRT-LLM, started with vLLM (sizing.engine); "
        "tensor parallelism: sized 1, started with 2 (hardware.tensorParallel); "
        "declare what runs, or start the pods with what was sized"
    )


READ = started(Words(command=("vllm", "serve", "a"), arguments=("-tp=2",)))


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(about(sized(), None), id="not read"),
        pytest.param(about(sized(), Started(StartSettings())), id="nothing told"),
        pytest.param(about(None, READ), id="a size of an older process"),
        pytest.param(about(sized(), READ, rollout=True), id="rollout"),
        pytest.param(replace(about(sized(), READ), sized=Unsized(Reason.UNKNOWN, "")), id="not sized"),
        pytest.param(replace(about(sized(), READ), target=TargetMissing(Reason.TARGET_NOT_FOUND, "")), id="no target"),
    ],
)
def test_what_is_not_known_has_no_condition(snapshot: ResourceSnapshot) -> None:
    assert judged(snapshot) is None


counts = st.none() | st.integers(1, 2**60)
any_settings = st.builds(
    StartSettings,
    engine=st.none() | st.sampled_from(Engine),
    tensor_parallel=counts,
    pipeline_parallel=counts,
    data_parallel=counts,
    longest_tokens=counts,
    max_batch=counts,
    tokens_per_step=counts,
    kv_cache_bits=counts,
    memory_share=st.none() | st.floats(0, 1),
    speculates=st.none() | st.booleans(),
    draft_tokens=counts,
    draft_method=st.none() | st.text(max_size=64),
)
any_start = st.builds(Started, any_settings, st.frozensets(st.sampled_from(sorted(ALL))))
any_sized = st.builds(SizedSettings, any_settings, any_settings)


@given(any_sized, any_start)
def test_it_is_told_in_a_message_that_fits_and_scales_nothing(settings: SizedSettings, start: Started) -> None:
    snapshot, plain = about(settings, start), about(None, None)
    found = judged(snapshot)

    assert decided(snapshot) == decided(plain)
    assert found is None or len(found.message) < 1024
    others = [each for each in judge(snapshot, decided(snapshot)) if each.kind is not ConditionType.SETTINGS_MATCH]
    assert others == list(judge(plain, decided(plain)))


@given(any_settings, st.data())
def test_a_setting_that_is_not_known_never_adds_a_difference(told: StartSettings, data: st.DataObject) -> None:
    start = data.draw(any_start)
    name = data.draw(st.sampled_from(sorted(ALL - {"engine"})))
    fewer = Started(replace(start.given, **{name: None}), start.left - {name})
    settings = SizedSettings(told, told)
    less, more = judged(about(settings, fewer)), judged(about(settings, start))

    assert less is None or less.holds or (more is not None and not more.holds)


@given(any_settings)
def test_a_start_as_sized_matches(told: StartSettings) -> None:
    found = judged(about(SizedSettings(told, StartSettings()), Started(told)))

    assert found is None or found.holds
