from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client import Histogram as ReferenceHistogram
from prometheus_client.parser import text_string_to_metric_families

from firsttoken_lab.emulate.exposition import Histogram, LabelledCounter, Scalar, render
from firsttoken_lab.emulate.metrics import PodMetrics
from firsttoken_operator.families import NIM1, TRITON, VLLM, token_bounds
from firsttoken_sizing.simulation.fleet import KvAdmission, Settings
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.step.model import StepModel

MODEL = StepModel(0.0057, 0.0, 9.2e-8, 1.45e-5, 0.0, max_batch=100)
NIM_TTFT = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 +Inf"
VLLM_TTFT = NIM_TTFT.replace("+Inf", "20.0 40.0 80.0 160.0 640.0 2560.0 +Inf")


def a_pod_after_traffic(family, until=60.0, settings=Settings(kv_cache_tokens=100_000)):  # noqa: B008
    metrics = PodMetrics(family, "meta/llama3", max_requests=100, kv_tokens=100_000, max_model_tokens=8192)
    metrics.engine = engine = OnlineReplica(MODEL, settings, observer=metrics)
    requests = [engine.submit(0.1 * number, 2000, 200) for number in range(40)]
    engine.advance(until)
    return metrics, requests


def samples(metrics):
    found = {}
    for family in text_string_to_metric_families(metrics.page().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def buckets(found, name):
    return " ".join(sample.labels["le"] for sample in found[f"{name}_bucket"])


def test_nim_1_publishes_its_families_with_label_model_name_only():
    metrics, _ = a_pod_after_traffic(NIM1)
    found = samples(metrics)
    scalars = {
        *("num_requests_running", "num_requests_waiting", "num_request_max", "gpu_cache_usage_perc"),
        *("prompt_tokens_total", "generation_tokens_total", "request_finish_total"),
        *("request_success_total", "request_failure_total"),
    }
    histograms = {
        *("time_to_first_token_seconds", "time_per_output_token_seconds", "e2e_request_latency_seconds"),
        *("request_prompt_tokens", "request_generation_tokens"),
    }
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}

    assert set(found) == scalars | parts
    labels = {label for group in found.values() for sample in group for label in sample.labels}
    assert labels == {"model_name", "le", "finished_reason"}
    assert buckets(found, "time_to_first_token_seconds") == NIM_TTFT
    assert buckets(found, "time_per_output_token_seconds") == (
        "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 +Inf"
    )
    assert buckets(found, "e2e_request_latency_seconds") == "1.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 +Inf"
    assert buckets(found, "request_prompt_tokens").endswith("20000.0 50000.0 100000.0 +Inf")


def test_triton_publishes_what_its_core_counts_and_first_responses_in_milliseconds():
    metrics, requests = a_pod_after_traffic(TRITON)
    metrics.count_finish("abort")
    metrics.count_finish("error")
    found = samples(metrics)

    # Triton's counters have no `_total`, which the parser of the Python client puts behind each.
    assert b"\nnv_inference_request_success{" in metrics.page()
    assert set(found) == {
        "nv_inference_request_success_total", "nv_inference_request_failure_total",
        "nv_inference_pending_request_count",
        *(f"nv_inference_first_response_histogram_ms_{part}" for part in ("bucket", "sum", "count")),
    }  # fmt: skip
    assert {label for group in found.values() for sample in group for label in sample.labels} == {
        "model", "version", "reason", "le",
    }  # fmt: skip
    assert {sample.labels["reason"]: sample.value for sample in found["nv_inference_request_failure_total"]} == {
        "CANCELED": 1, "BACKEND": 1, "REJECTED": 0, "OTHER": 0,
    }  # fmt: skip
    done = [request for request in requests if request.finish_reason]
    (succeeded,), (summed,) = found["nv_inference_request_success_total"], found[f"{TRITON.ttft}_sum"]
    assert succeeded.value == len(done) > 0
    assert buckets(found, TRITON.ttft) == "100.0 500.0 2000.0 5000.0 +Inf"
    assert summed.value == pytest.approx(1000 * sum(request.ttft_seconds for request in requests))


def test_triton_counts_a_request_as_its_answer_begins_and_not_again_as_it_ends():
    settings = Settings(kv_cache_tokens=2300)  # room for one
    metrics, requests = a_pod_after_traffic(TRITON, until=4.0, settings=settings)
    engine = metrics.engine

    def counted():
        found = samples(metrics)
        (well,), (waiting,) = found["nv_inference_request_success_total"], found["nv_inference_pending_request_count"]
        broken = {sample.labels["reason"]: sample.value for sample in found["nv_inference_request_failure_total"]}
        return well.value, waiting.value, broken["CANCELED"]

    begun = [request for request in requests if 0 < request.first_token <= 4.0]
    assert counted() == (len(begun), engine.waiting, 0)
    assert any(not request.is_done for request in begun)
    for request in (*begun, waiting := requests[-1]):
        engine.abort(request)
    engine.advance(4.5)

    assert waiting.is_aborted
    _, _, canceled = counted()
    assert canceled == 1
    engine.advance(1000.0)
    assert counted() == (len(requests) - 1, 0, 1)


def test_vllm_publishes_prefixed_families_with_labels_model_name_and_engine():
    metrics, _ = a_pod_after_traffic(VLLM)
    found = samples(metrics)

    assert all(name.startswith("vllm:") for name in found)
    assert all({"model_name", "engine"} <= set(sample.labels) for group in found.values() for sample in group)
    assert buckets(found, "vllm:time_to_first_token_seconds") == VLLM_TTFT
    assert buckets(found, "vllm:e2e_request_latency_seconds").startswith("0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0")
    assert buckets(found, "vllm:request_prompt_tokens").endswith("2000.0 5000.0 +Inf")
    info = found["vllm:cache_config_info"][0].labels
    assert int(info["num_gpu_blocks"]) * int(info["block_size"]) == 100_000


@pytest.mark.parametrize(
    ("family", "prefix", "itl"),
    [
        (NIM1, "", "time_per_output_token_seconds"),
        (VLLM, "vllm:", "inter_token_latency_seconds"),
    ],
)
def test_sums_and_counts_equal_what_happened_to_the_requests(family, prefix, itl):
    metrics, requests = a_pod_after_traffic(family)
    found = samples(metrics)

    def value(name):
        return sum(sample.value for sample in found[prefix + name])

    assert value("time_to_first_token_seconds_count") == len(requests)
    assert value("time_to_first_token_seconds_sum") == pytest.approx(sum(r.ttft_seconds for r in requests))
    assert value("e2e_request_latency_seconds_sum") == pytest.approx(sum(r.end_to_end_seconds for r in requests))
    assert value(f"{itl}_count") == sum(r.output - 1 for r in requests)
    assert value(f"{itl}_sum") == pytest.approx(sum(r.finish - r.first_token for r in requests), rel=1e-9)
    assert value("generation_tokens_total") == sum(r.output for r in requests)
    assert value("prompt_tokens_total") == sum(r.input for r in requests)
    assert value("request_success_total") == len(requests)
    assert value("num_requests_running") == value("num_requests_waiting") == 0


def test_a_page_read_in_the_middle_counts_the_tokens_so_far():
    metrics, requests = a_pod_after_traffic(NIM1, until=2.05)
    found = samples(metrics)
    engine = metrics.engine
    emitted = sum(engine.tokens_generated(request) for request in requests)

    assert engine.in_flight > 0
    assert found["generation_tokens_total"][0].value == emitted
    assert found["num_requests_running"][0].value == engine.running > 0
    assert 0 < found["gpu_cache_usage_perc"][0].value < 1


def test_vllm_counts_the_requests_whose_cache_was_taken_away():
    paged = Settings(kv_cache_tokens=8_500, kv_admission=KvAdmission.PAGED)
    metrics, requests = a_pod_after_traffic(VLLM, settings=paged)

    preempted = sum(request.preemptions for request in requests)
    assert samples(metrics)["vllm:num_preemptions_total"][0].value == preempted > 0


def test_the_text_is_what_the_prometheus_client_library_would_write():
    registry = CollectorRegistry()
    labels = {"model_name": 'a "quoted" \\ name'}
    gauge = Gauge("g", "A gauge.", list(labels), registry=registry).labels(**labels)
    counter = Counter("c_total", "A counter.", ["model_name", "reason"], registry=registry)
    histogram = ReferenceHistogram("h", "A histogram.", list(labels), buckets=(0.25, 1, 5000), registry=registry)
    ours = (
        Scalar("gauge", "g", "A gauge.", labels),
        LabelledCounter("c_total", "A counter.", labels, "reason"),
        Histogram("h", "A histogram.", labels, (0.25, 1, 5000)),
    )
    gauge.set(3)
    ours[0].value = 3
    counter.labels(**labels, reason="stop").inc()
    ours[1].increment("stop")
    for value in (0.25, 0.3, 7, 9000):
        histogram.labels(**labels).observe(value)
        ours[2].observe(value)

    def sorted_lines(text):
        return sorted(line for line in text.splitlines() if "_created" not in line)

    assert sorted_lines(render(ours).decode()) == sorted_lines(generate_latest(registry).decode())


@given(
    first=st.floats(0.0005, 3),
    growth=st.floats(0, 0.01),
    length=st.integers(1, 500),
    times=st.integers(1, 50),
)
def test_a_series_fills_the_buckets_as_its_terms_one_by_one_would(first, growth, length, times):
    bounds = (0.01, 0.025, 0.05, 0.5, 1.0, 2.5)
    jumped, stepped = Histogram("h", "", {}, bounds), Histogram("h", "", {}, bounds)
    jumped.observe_series(first, growth, length, times)
    for index in range(length):
        stepped.observe(first + index * growth, times)

    assert sum(jumped.counts) == sum(stepped.counts) == length * times
    assert jumped.sum == pytest.approx(stepped.sum)
    # A term that lies on a bound within rounding may fall on either side of it.
    off = sum(abs(a - b) for a, b in zip(jumped.counts, stepped.counts, strict=True))
    assert off <= 2 * times * sum(
        any(abs(first + index * growth - bound) < 1e-12 for bound in bounds) for index in range(length)
    )


def test_token_buckets_are_the_1_2_5_series():
    assert token_bounds(100) == (1, 2, 5, 10, 20, 50, 100)
    assert token_bounds(8192)[-1] == 5000


@pytest.mark.parametrize("family", [TRITON, VLLM, NIM1], ids=lambda family: family.name)
def test_a_page_without_ttft_has_all_the_rest(family):
    def names(**options):
        pod = PodMetrics(family, "m", max_requests=100, kv_tokens=100_000, max_model_tokens=8192, **options)
        return set(samples(pod))

    missing = names() - names(tells_ttft=False)

    assert missing == {f"{family.ttft}_{part}" for part in ("bucket", "count", "sum")}
    assert names(tells_ttft=False) < names()
