"""NIM for LLMs 1.x: names without a prefix, one label `model_name`, TTFT buckets that jump from 0.25 s to 0.5 s.

`request_success_total` counts finish reasons stop and length, `request_failure_total` the rest (NIM observability
documentation, and `nim_metrics.txt` of DataDog/integrations-core). NIM 2.x and later expose their engine's family.
When `prompt_tokens_total` grows is not documented; the histograms of both token counts are of the same requests for
certain. Names, labels and buckets: docs/design/runtimes.md 1.1.
"""

from firsttoken_operator.families.family import Advice, Metric, MetricFamily, counter, gauge, histogram, token_bounds
from firsttoken_operator.families.promql import rate, recent, selector
from firsttoken_operator.families.signals import FAILED, SERVED, TokenPart

_TTFT_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_ITL_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_END_TO_END_SECONDS = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
_TOKENS = token_bounds(100_000)
_RUNNING, _WAITING, _KV_USAGE = "num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc"
_TTFT = "time_to_first_token_seconds"
_PROMPT, _OUTPUT = "request_prompt_tokens", "request_generation_tokens"
_SUCCEEDED, _FAILURES = "request_success_total", "request_failure_total"

NIM1 = MetricFamily(
    name="NIM 1.x",
    runtime="nim",
    told_by=selector(_RUNNING),
    waiting=(selector(_WAITING),),
    running=selector(_RUNNING),
    ttft=_TTFT,
    advice=Advice(buckets="the buckets of NIM 1.x are fixed: declare a limit of 100, 250, 500, 750 or 1000 ms"),
    page=(
        gauge(Metric.RUNNING, _RUNNING),
        gauge(Metric.WAITING, _WAITING),
        gauge(Metric.MAX_RUNNING, "num_request_max"),
        gauge(Metric.KV_USAGE, _KV_USAGE),
        counter(Metric.PROMPT_TOKENS, "prompt_tokens_total"),
        counter(Metric.GENERATION_TOKENS, "generation_tokens_total"),
        histogram(Metric.TTFT, _TTFT, _TTFT_SECONDS),
        histogram(Metric.ITL, "time_per_output_token_seconds", _ITL_SECONDS),
        histogram(Metric.END_TO_END, "e2e_request_latency_seconds", _END_TO_END_SECONDS),
        histogram(Metric.REQUEST_PROMPT_TOKENS, _PROMPT, _TOKENS),
        histogram(Metric.REQUEST_GENERATION_TOKENS, _OUTPUT, _TOKENS),
        counter(Metric.FINISHED, "request_finish_total", label="finished_reason"),
        counter(Metric.SUCCEEDED, _SUCCEEDED),
        counter(Metric.FAILED, _FAILURES),
    ),
    dimensions="model_name",
    ended={SERVED: rate(_SUCCEEDED), FAILED: rate(_FAILURES)},
    ended_dimensions="model_name",
    kv_usage=recent(selector(_KV_USAGE)),
    tokens={
        TokenPart.PROMPT_TOKENS: f"{_PROMPT}_sum",
        TokenPart.PROMPTS: f"{_PROMPT}_count",
        TokenPart.OUTPUT_TOKENS: f"{_OUTPUT}_sum",
        TokenPart.OUTPUTS: f"{_OUTPUT}_count",
    },
)
