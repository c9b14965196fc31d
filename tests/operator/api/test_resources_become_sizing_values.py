"""Values that sizing and scaling get from a resource: tokens, rates, prices, preferences, and defaults that depend."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import scaling_policy, sizing_request, workload
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.api.errors import InvalidDocument
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment, Precision
from firsttoken_operator.api.profiles import benchmark_document, profile
from firsttoken_operator.api.quantities import MAX_INTEGER, amount_of, decimal_string, number
from firsttoken_operator.domain import ScaleDown
from firsttoken_sizing.catalog import BYTES_PER_PARAMETER
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize import size
from firsttoken_sizing.optimize.checks import check_fields
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile
from firsttoken_sizing.workload import (
    REQUESTS_PER_PREFIX,
    Arrivals,
    Batching,
    GpuOrder,
    Limit,
    OfflineJob,
    Percentile,
    Pricing,
    Routing,
    Sla,
    Sparsity,
    SpeculativeDecoding,
)
from tests.operator.api.bad_objects import BENCHMARK, DEPLOYMENT, GOOD, POOL, REMOVED, changed

CALL_CENTER = Path(__file__).parents[3] / "examples" / "call-center.yaml"


def deployment(**changes):
    return InferenceDeployment.model_validate(
        changed(GOOD[DEPLOYMENT], {k.replace("__", "."): v for k, v in changes.items()})
    )


def pool(**changes):
    return GPUPool.model_validate(changed(GOOD[POOL], {k.replace("__", "."): v for k, v in changes.items()}))


def benchmark(name, **changes):
    return BenchmarkProfile.model_validate(
        changed(GOOD[BENCHMARK], {"metadata.name": name} | {k.replace("__", "."): v for k, v in changes.items()})
    )


def test_the_call_center_becomes_the_third_worked_example():
    documents = load_documents(CALL_CENTER)

    request = sizing_request(documents.deployments[0], documents.pools, documents.benchmarks)

    assert request.workload.average_requests_per_second == 28.54
    assert request.workload.peak_requests_per_second == 200
    assert (request.workload.input_tokens, request.workload.output_tokens) == (2000, 200)
    assert request.sla == Sla(time_to_first_token=Limit(300, Percentile.P95))
    assert request.arrivals is Arrivals.CLOSED_LOOP
    assert request.hardware.gpus_per_server == 8
    assert request.pricing == {
        "H100-SXM-80GB": Pricing(
            server_price=320_000, amortization_years=4, hosting_per_year=3000, license_per_gpu_year=4500
        )
    }
    (measured,) = request.profiles
    assert measured.points[3] == Point(
        5.1954, concurrency=10, ttft=Latency(mean=220.8, p95=268), itl=Latency(mean=8.56)
    )


@pytest.mark.parametrize(
    ("quantity", "amount"),
    [("16", 16), ("500m", 0.5), ("1.5k", 1500), ("2M", 2e6), ("64Gi", 64 * 2**30), ("0.5Ti", 2**39), ("1Ki", 1024)],
)
def test_a_quantity_is_the_number_that_kubernetes_reads(quantity, amount):
    assert amount_of(quantity) == amount


def test_every_precision_of_the_catalog_can_be_declared():
    assert [p.value for p in Precision] == list(BYTES_PER_PARAMETER)


def test_a_model_that_is_published_in_mxfp4_can_be_asked_for_in_it():
    declared = {"name": "openai/gpt-oss-120b", "precision": "MXFP4", "allowedPrecisions": ["MXFP4", "BF16"]}
    resource = InferenceDeployment.model_validate(changed(GOOD[DEPLOYMENT], {"spec.model": declared}))

    request = sizing_request(resource, {}, [])

    assert (request.precision, request.allowed_precisions) == ("MXFP4", ("MXFP4", "BF16"))


def test_the_release_of_the_engine_is_passed_on_and_absent_without_one():
    plain, declared = deployment(), deployment(spec__sizing={"engine": "vLLM", "engineRelease": "0.15"})

    assert sizing_request(plain, {}, []).engine_release is None
    assert sizing_request(declared, {}, []).engine_release == "0.15"


def test_arrivals_and_every_percentile_can_be_overridden():
    asked = deployment(spec__sla={"timeToFirstToken": {"milliseconds": 300}, "interTokenLatency": {"milliseconds": 50}})

    request = sizing_request(asked, {}, [], arrivals=Arrivals.CLOSED_LOOP, percentile=Percentile.MEAN)

    assert request.arrivals is Arrivals.CLOSED_LOOP
    assert request.sla.time_to_first_token == Limit(300, Percentile.MEAN)
    assert request.sla.inter_token_latency == Limit(50, Percentile.MEAN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "peak", "concurrent"),
    [
        pytest.param({"peakRequestsPerSecond": "199780m"}, 199.78, None, id="a rate in thousandths"),
        pytest.param({"peakToAverage": 7}, 199.78, None, id="a factor"),
        pytest.param({"peakToAverage": "1.5"}, 42.81, None, id="a broken factor"),
        pytest.param({"averageRequestsPerSecond": 64, "peakPercentile": 95}, 77, None, id="a Poisson percentile"),
        pytest.param({"averageRequestsPerSecond": 7, "peakPercentile": 95}, 12, None, id="a Poisson percentile of few"),
        pytest.param({"concurrentRequests": 40}, None, 40, id="requests in flight"),
    ],
)
def test_every_form_of_the_peak_is_resolved(form, peak, concurrent):
    changes = {"spec.traffic.peakRequestsPerSecond": REMOVED} | {f"spec.traffic.{k}": v for k, v in form.items()}

    result = workload(InferenceDeployment.model_validate(changed(GOOD[DEPLOYMENT], changes)).spec.traffic)

    assert result.peak_requests_per_second == (None if peak is None else pytest.approx(peak))
    assert result.concurrent_requests == concurrent


def test_what_is_in_use_of_the_prefix_cache_is_passed_on():
    traffic = {**GOOD[DEPLOYMENT]["spec"]["traffic"], "cachedInputPercent": 40}
    plain = deployment(spec__traffic=traffic)
    declared = deployment(
        spec__traffic={**traffic, "prefixesInUse": 500, "requestsPerPrefix": "2.5", "routing": "PrefixAware"}
    )

    assert workload(plain.spec.traffic).prefixes_in_use is workload(plain.spec.traffic).requests_per_prefix is None
    asked = workload(declared.spec.traffic)
    assert (asked.prefixes_in_use, asked.requests_per_prefix) == (500, 2.5)
    assert asked.routing is Routing.PREFIX_AWARE


@pytest.mark.parametrize("each", REQUESTS_PER_PREFIX)
def test_both_ends_of_requests_per_prefix_are_sized(each):
    cached = {"cachedInputPercent": 40, "prefixesInUse": 500, "requestsPerPrefix": str(each)}
    declared = deployment(spec__traffic={**GOOD[DEPLOYMENT]["spec"]["traffic"], **cached})

    check_fields(sizing_request(declared, {}, ()))


def test_a_job_with_a_deadline_has_no_peak():
    asked = deployment(
        spec__traffic={"inputTokens": 1, "outputTokens": 1, "offline": {"requests": 9_000, "deadlineHours": "1.5"}},
        spec__sla={"mode": "Offline"},
    )

    result = workload(asked.spec.traffic)

    assert result.offline == OfflineJob(9_000, 1.5)
    assert (result.peak_requests_per_second, result.concurrent_requests) == (None, None)


def test_quantiles_become_rising_shares():
    asked = deployment(
        spec__traffic__inputTokenQuantiles=[{"percentile": 90, "tokens": 4000}, {"percentile": 50, "tokens": 900}]
    )

    assert workload(asked.spec.traffic).input_token_quantiles == ((0.5, 900), (0.9, 4000))


@pytest.mark.parametrize(
    ("changes", "engine"),
    [
        pytest.param({}, Engine.TENSORRT_LLM, id="a target that says nothing"),
        pytest.param({"spec__sizing": {"engine": "SGLang"}}, Engine.SGLANG, id="a declared one"),
    ],
)
def test_the_engine_is_declared_or_the_one_of_the_course(changes, engine):
    assert sizing_request(deployment(**changes), {}, []).engine is engine


MISTRAL_LIKE = {
    "model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 32768,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_a_model_outside_the_catalog_brings_its_own_numbers():
    declared = {"name": "acme/support-7b", "architecture": MISTRAL_LIKE}

    request = sizing_request(deployment(spec__model=declared), {}, [])

    assert request.model == "acme/support-7b"
    assert request.architecture is not None
    assert request.architecture.parameters_billion == pytest.approx(7.25, rel=0.01)


def test_a_number_that_the_model_lacks_is_named():
    broken = {name: value for name, value in MISTRAL_LIKE.items() if name != "num_hidden_layers"}

    with pytest.raises(InvalidInput, match=r"model\.architecture\.num_hidden_layers"):
        sizing_request(deployment(spec__model={"name": "acme/support-7b", "architecture": broken}), {}, [])


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        pytest.param(["vLLM 0.15"], Engine.VLLM, id="one that was measured"),
        pytest.param(["vLLM", "NIM"], Engine.TENSORRT_LLM, id="several"),
        pytest.param([""], Engine.TENSORRT_LLM, id="a benchmark that does not say"),
    ],
)
def test_a_target_is_taken_to_run_what_its_model_was_measured_on(engines, expected):
    measured = [benchmark(f"b{i}", spec__engine=engine) for i, engine in enumerate(engines)]

    assert sizing_request(deployment(), {}, measured).engine is expected


def test_optimizations_of_model_and_engine_reach_the_sizing():
    asked = deployment(
        spec__model={"name": "meta-llama/Meta-Llama-3-8B-Instruct", "sparsity": "TwoOfFour"},
        spec__sizing={"speculativeDecoding": {"draftTokens": 3, "acceptancePercent": 70}},
    )

    request = sizing_request(asked, {}, [])

    assert request.sparsity is Sparsity.TWO_OF_FOUR
    assert request.speculative_decoding == SpeculativeDecoding(3, 70)


def test_ways_of_batching_keep_their_order():
    asked = deployment(spec__sizing={"batching": ["Static", "InFlight"]})

    assert sizing_request(asked, {}, []).batchings == (Batching.STATIC, Batching.IN_FLIGHT)


def test_a_percentile_of_hardly_any_traffic_is_refused():
    asked = deployment(
        spec__traffic={
            "inputTokens": 1,
            "outputTokens": 1,
            "averageRequestsPerSecond": "0.01",
            "peakPercentile": 95,
        }
    )

    with pytest.raises(InvalidInput) as refusal:
        workload(asked.spec.traffic)

    assert str(refusal.value) == (
        "spec.traffic.peakPercentile: P95 of a Poisson average of 0.01 requests per second is 0, "
        "which is below the average; raise it, or declare peakRequestsPerSecond"
    )


def test_words_become_tokens():
    asked = deployment(spec__traffic={"inputWords": 1500, "outputWords": 100, "peakRequestsPerSecond": 1})

    result = workload(asked.spec.traffic)

    assert (result.input_tokens, result.output_tokens) == (2000, 134)


def test_a_pool_that_is_not_there_leaves_prices_unknown():
    request = sizing_request(deployment(spec__capacity={"pool": "elsewhere"}), {"spare": pool()}, [])

    assert request.pricing == {}


def test_prices_are_keyed_by_the_canonical_gpu():
    prices = {"gpuHour": "2.50", "reservedGPUHour": "1.50", "spotGPUHour": 1}
    spare = pool(spec__gpu="NVIDIA-H100-80GB-HBM3", spec__pricing=prices, spec__gpusPerServer=4)

    request = sizing_request(deployment(spec__capacity={"pool": "spare"}), {"spare": spare}, [])

    assert request.pricing == {"H100-SXM-80GB": Pricing(gpu_hour=2.5, reserved_gpu_hour=1.5, spot_gpu_hour=1.0)}
    assert request.hardware.gpus_per_server == 4


def test_a_named_benchmark_replaces_the_others_of_its_configuration():
    known = [
        benchmark("old"),
        benchmark("new", spec__gpu="h100-sxm"),
        benchmark("other-gpu", spec__gpu="A100-SXM-80GB"),
    ]

    request = sizing_request(deployment(spec__sizing={"benchmarks": ["new"]}), {}, known)

    assert [p.name for p in request.profiles] == ["new", "other-gpu"]


def test_a_named_benchmark_that_is_not_there_is_refused():
    with pytest.raises(InvalidInput) as refusal:
        sizing_request(deployment(spec__sizing={"benchmarks": ["lost"]}), {}, [benchmark("old")])

    assert str(refusal.value) == (
        "spec.sizing.benchmarks: there is no BenchmarkProfile lost; "
        "create it, or remove the name to use every profile that matches"
    )


def test_gpus_are_taken_by_price_or_as_they_are_listed():
    listed = deployment(spec__hardware={"gpus": ["A100-SXM-80GB", "H100-SXM-80GB"], "gpuOrder": "Listed"})

    assert sizing_request(deployment(), {}, []).hardware.gpu_order is GpuOrder.PRICE
    assert sizing_request(listed, {}, []).hardware.gpu_order is GpuOrder.LISTED


PINNED = {"sizing": {"configuration": {"gpu": "H100-SXM-80GB", "precision": "FP8", "tensorParallel": 2}}}


def test_the_configuration_of_a_running_fleet_is_pinned():
    request = sizing_request(deployment(status=PINNED, spec__model__name="meta/llama3-8b-instruct"), {}, [])

    assert request.pinned == ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8", 2)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param({"spec__hardware__tensorParallel": 4}, id="tensor parallelism"),
        pytest.param({"spec__hardware__pipelineParallel": 2}, id="pipeline parallelism"),
        pytest.param({"spec__hardware__attentionDataParallel": 2}, id="attention data parallelism"),
        pytest.param({"spec__hardware__gpus": ["A100-SXM-80GB"]}, id="the GPU"),
        pytest.param({"spec__model__precision": "FP16"}, id="the precision"),
        pytest.param({"spec__model__allowedPrecisions": ["FP16"]}, id="the precisions allowed"),
    ],
)
def test_a_choice_of_the_user_ends_the_pin(choice):
    assert sizing_request(deployment(status=PINNED, **choice), {}, []).pinned is None


def test_a_choice_that_agrees_keeps_the_pin():
    agreeing = deployment(status=PINNED, spec__hardware={"gpus": ["A100-SXM-80GB", "h100-sxm"], "tensorParallel": 2})

    assert sizing_request(agreeing, {}, []).pinned is not None


@pytest.mark.parametrize(
    ("pool_of", "declared", "expected"),
    [
        pytest.param(None, None, ScaleDown.ALWAYS, id="without a pool"),
        pytest.param("Cloud", None, ScaleDown.ALWAYS, id="in the cloud"),
        pytest.param("OnPrem", None, ScaleDown.WHEN_POOL_SHORT, id="on-prem"),
        pytest.param("OnPrem", "Always", ScaleDown.ALWAYS, id="on-prem, declared"),
        pytest.param("Cloud", "Never", ScaleDown.NEVER, id="in the cloud, declared"),
    ],
)
def test_when_gpus_are_given_back_depends_on_who_pays_for_idle_ones(pool_of, declared, expected):
    asked = deployment(**({"spec__scaling": {"scaleDown": declared}} if declared else {}))
    places = {
        None: None,
        "Cloud": pool(),
        "OnPrem": pool(spec__location="OnPrem", spec__baseGPUs=REMOVED, spec__burstGPUs=REMOVED),
    }

    assert scaling_policy(asked, places[pool_of]).scale_down is expected


@pytest.mark.parametrize(("declared", "expected"), [(None, ScaleDown.NEVER), ("Always", ScaleDown.ALWAYS)])
def test_gpus_of_a_pool_that_is_not_known_are_kept_unless_declared_otherwise(declared, expected):
    scaling = {"spec__scaling": {"scaleDown": declared}} if declared else {}

    assert scaling_policy(deployment(spec__capacity={"pool": "gone"}, **scaling), None).scale_down is expected


@pytest.mark.parametrize("declared", [0, 1, 4])
def test_the_minimum_is_as_declared_even_where_it_is_zero(declared):
    assert scaling_policy(deployment(spec__scaling={"minReplicas": declared}), None).min_replicas == declared


def test_one_time_scale_divides_every_duration_and_nothing_else():
    asked = deployment(spec__scaling={"maxReplicas": 64, "minReplicas": 4})
    policy = scaling_policy(asked, None)

    assert scaling_policy(asked, None, time_scale=10) == replace(
        policy, stabilization_seconds=30, backlog_drain_seconds=6, metrics_loss_grace_seconds=90
    )


def test_a_benchmark_survives_the_way_to_a_resource_and_back():
    measured = Profile(
        name="llama-3-8b",
        key=ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8", 2),
        input_tokens=1999.5,
        output_tokens=200,
        load=Load.POISSON,
        points=(
            Point(3.9, offered_requests_per_second=4, ttft=Latency(p50=80, p99=140.5), end_to_end=Latency(mean=2000)),
            Point(7.5, offered_requests_per_second=8),
        ),
        engine="vLLM",
        source="our lab",
    )

    document = benchmark_document(measured)

    assert profile(BenchmarkProfile.model_validate(document)) == measured
    assert document["spec"]["outputTokens"] == 200
    assert isinstance(document["spec"]["outputTokens"], int)
    assert "engineVersion" not in document["spec"]


def test_a_name_that_kubernetes_would_refuse_is_respelled():
    measured = profile(benchmark("x"))

    document = benchmark_document(replace(measured, name="meta/Llama-3_8B (H100) v1..2"))

    assert document["metadata"]["name"] == "meta-llama-3-8b-h100-v1.2"


def test_points_that_no_resource_may_hold_are_refused():
    measured = replace(profile(benchmark("x")), points=(Point(1.0),))

    with pytest.raises(InvalidDocument) as refusal:
        benchmark_document(measured)

    assert str(refusal.value) == (
        "x: BenchmarkProfile: spec.points: load ClosedLoop needs concurrency at every point; "
        "add points[].concurrency, or set load: Poisson"
    )


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        pytest.param({"peakGPUs": REMOVED, "baseGPUs": 32, "burstGPUs": 32}, 64, id="base and burst"),
        pytest.param({"burstGPUs": REMOVED}, 32, id="base alone"),
        pytest.param({"baseGPUs": REMOVED, "burstGPUs": REMOVED}, None, id="the inventory"),
        pytest.param({"location": "OnPrem", "baseGPUs": REMOVED, "burstGPUs": REMOVED, "peakGPUs": 16}, 16, id="peak"),
    ],
)
def test_the_budget_of_a_pool_is_what_it_declares(declared, expected):
    changes = {
        f"spec__{name}": value for name, value in declared.items() if not (name == "peakGPUs" and value is REMOVED)
    }

    assert pool(**changes).spec.declared_gpus == expected


@given(st.floats(min_value=0, max_value=MAX_INTEGER, allow_nan=False))
def test_a_number_written_as_a_rate_is_read_back_to_a_thousandth(value):
    assert number(decimal_string(value)) == pytest.approx(value, abs=5.001e-4, rel=1e-15)


MIXTURE = {
    "spec__model": {"name": "deepseek-ai/DeepSeek-R1", "precision": "FP8"},
    "spec__hardware": {"gpus": ["H200-SXM-141GB"]},
    "spec__sla": {"timeToFirstToken": {"milliseconds": 3000}},
    "spec__traffic": {"inputTokens": 1000, "outputTokens": 2000, "peakRequestsPerSecond": "60"},
    "spec__sizing": {"engine": "vLLM"},
}


def groups_of(resource, *, has_pods=True):
    return size(sizing_request(resource, {}, [], has_pods=has_pods)).configuration.attention_data_parallel


def test_pods_of_others_have_one_attention_unless_more_groups_are_declared():
    target = deployment(**MIXTURE)
    of_eight = {"gpus": ["H200-SXM-141GB"], "tensorParallel": 8}
    fixed = deployment(**MIXTURE | {"spec__hardware": of_eight})
    told = deployment(**MIXTURE | {"spec__hardware": of_eight | {"attentionDataParallel": 8}})
    as_one = deployment(**MIXTURE | {"spec__hardware": of_eight | {"attentionDataParallel": 1}})

    assert (groups_of(target), groups_of(fixed), groups_of(told)) == (1, 1, 8)
    assert size(sizing_request(fixed, {}, [])).gpus == size(sizing_request(as_one, {}, [])).gpus
    # A question without pods may answer with any layout, unless its tensor parallelism is declared.
    assert groups_of(target, has_pods=False) == 8
    assert groups_of(fixed, has_pods=False) == 1


def test_groups_that_were_fixed_for_pods_of_others_are_not_kept():
    fixed = {"gpu": "H200-SXM-141GB", "precision": "FP8", "tensorParallel": 8, "pipelineParallel": 1}

    def pinned(groups):
        configuration = fixed | {"attentionDataParallel": groups}
        return sizing_request(deployment(**MIXTURE, status={"sizing": {"configuration": configuration}}), {}, []).pinned

    assert pinned(8) is None
    assert pinned(1).tensor_parallel == 8


def test_offline_pods_of_others_run_the_batch_of_their_engine():
    job = {"inputTokens": 500, "outputTokens": 300, "offline": {"requests": 100_000_000, "deadlineHours": "24"}}
    offline = {"spec__sla": {"mode": "Offline"}, "spec__traffic": job}
    runtime = {"image": "a/server:latest", "modelCache": {"claimName": "weights"}}

    def batch(engine="vLLM", settings=None, **changes):
        sizing = {"engine": engine} | ({"engineSettings": settings} if settings else {})
        question = sizing_request(deployment(**offline, spec__sizing=sizing, **changes), {}, [])
        return size(question).concurrency_per_replica

    default = Engine.VLLM.spec.release().max_batch
    rendered = batch(spec__targetRef=REMOVED, spec__runtime=runtime | {"type": "VLLM"})
    nim = batch(spec__targetRef=REMOVED, spec__runtime=runtime | {"type": "NIM", "version": "1.8"})

    assert batch() == nim == default < rendered
    assert default < batch(settings={"maxBatchSize": 512}) <= 512
