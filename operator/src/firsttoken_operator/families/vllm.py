"""vLLM >= 0.8, and NIM 2.x and 3.x in standard mode, which pass vLLM's series through.

`vllm:request_success_total` counts every finish reason, errors and aborts too, and `vllm:admission_rejections_total`
what never got in. An abort is the client's doing and no failure of the server. The KV gauge was renamed in 0.9-0.12;
`engine` is the data-parallel rank: ranks are added up, for the KV cache the fullest counts.

`vllm:prompt_tokens_total` grows by a whole prompt, cached tokens included, at the step that observes its TTFT
(`vllm/v1/metrics/stats.py`), so the two are of the same requests; the histogram of outputs is filled at the end.
Names, labels and buckets: docs/design/runtimes.md 1.4 (vLLM 0.33).
"""

from firsttoken_operator.families.family import Advice, Metric, MetricFamily, counter, gauge, histogram
from firsttoken_operator.families.promql import rate, recent, selector
from firsttoken_operator.families.signals import FAILED, REJECTED, SERVED, TokenPart

_TTFT_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_ITL_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
    *(5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_KV_USAGE, _KV_USAGE_BEFORE_RENAMING = "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"
TTFT, PROMPT_TOKENS = "vllm:time_to_first_token_seconds", "vllm:prompt_tokens_total"
REQUEST_PROMPT, REQUEST_OUTPUT = "vllm:request_prompt_tokens", "vllm:request_generation_tokens"
_FINISHED = "vllm:request_success_total"
_BLOCK_TOKENS = 16
"""Default block size."""


def _kv_labels(tokens: int) -> dict[str, str]:
    return {"block_size": str(_BLOCK_TOKENS), "num_gpu_blocks": str(tokens // _BLOCK_TOKENS)}


VLLM = MetricFamily(
    name="vLLM",
    runtime="vllm",
    told_by=selector(_RUNNING),
    waiting=(selector(_WAITING),),
    running=selector(_RUNNING),
    ttft=TTFT,
    advice=Advice(
        publish="vLLM without --disable-log-stats",
        buckets="start vLLM 0.32 or later with --custom-histogram-buckets, and {limit} among its time_to_first_token",
    ),
    page=(
        gauge(Metric.RUNNING, _RUNNING),
        gauge(Metric.WAITING, _WAITING),
        gauge(Metric.KV_USAGE, _KV_USAGE),
        counter(Metric.PROMPT_TOKENS, PROMPT_TOKENS),
        counter(Metric.CACHED_PROMPT_TOKENS, "vllm:prompt_tokens_cached_total"),
        counter(Metric.GENERATION_TOKENS, "vllm:generation_tokens_total"),
        counter(Metric.PREEMPTIONS, "vllm:num_preemptions_total"),
        counter(
            Metric.FINISHED,
            _FINISHED,
            label="finished_reason",
            text="Finished requests by reason, aborted or not.",
        ),
        histogram(Metric.TTFT, TTFT, _TTFT_SECONDS),
        histogram(Metric.ITL, "vllm:inter_token_latency_seconds", _ITL_SECONDS),
        histogram(
            Metric.REQUEST_ITL,
            "vllm:request_time_per_output_token_seconds",
            _ITL_SECONDS,
        ),
        histogram(Metric.END_TO_END, "vllm:e2e_request_latency_seconds", _REQUEST_SECONDS),
        histogram(Metric.QUEUE_TIME, "vllm:request_queue_time_seconds", _REQUEST_SECONDS),
        histogram(
            Metric.INFERENCE_TIME,
            "vllm:request_inference_time_seconds",
            _REQUEST_SECONDS,
        ),
        histogram(Metric.PREFILL_TIME, "vllm:request_prefill_time_seconds", _REQUEST_SECONDS),
        histogram(Metric.DECODE_TIME, "vllm:request_decode_time_seconds", _REQUEST_SECONDS),
        histogram(Metric.REQUEST_PROMPT_TOKENS, REQUEST_PROMPT),
        histogram(Metric.REQUEST_GENERATION_TOKENS, REQUEST_OUTPUT),
        gauge(Metric.KV_CONFIG, "vllm:cache_config_info"),
    ),
    dimensions="engine, model_name",
    ended={
        SERVED: rate(_FINISHED, 'finished_reason!="error"'),
        FAILED: rate(_FINISHED, 'finished_reason="error"'),
        REJECTED: rate("vllm:admission_rejections_total"),
    },
    ended_dimensions="engine, model_name, finished_reason, reason",
    kv_usage=f"{recent(selector(_KV_USAGE))} or {recent(selector(_KV_USAGE_BEFORE_RENAMING))}",
    tokens={
        TokenPart.PROMPT_TOKENS: PROMPT_TOKENS,
        TokenPart.PROMPTS: f"{TTFT}_count",
        TokenPart.OUTPUT_TOKENS: f"{REQUEST_OUTPUT}_sum",
        TokenPart.OUTPUTS: f"{REQUEST_OUTPUT}_count",
    },
    page_labels={"engine": "0"},
    kv_labels=_kv_labels,
)
