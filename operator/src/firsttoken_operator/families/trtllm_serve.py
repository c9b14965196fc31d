"""trtllm-serve 1.3 and later, the server of TensorRT-LLM without Triton.

Its Prometheus page is `/prometheus/metrics`; at `/metrics` it answers with JSON, which no scrape can read. Names and
labels: docs/design/runtimes.md 1.3.
"""

from firsttoken_operator.families.family import Advice, MetricFamily
from firsttoken_operator.families.promql import rate, recent, selector
from firsttoken_operator.families.signals import FAILED, SERVED, TokenPart

_RUNNING, _WAITING = "trtllm_num_requests_running", "trtllm_num_requests_waiting"
_SUCCESS = "trtllm_request_success_total"
_DIMENSIONS = "engine_type, model_name, finished_reason"

TRTLLM_SERVE = MetricFamily(
    name="trtllm-serve",
    told_by=selector(_RUNNING),
    dimensions=_DIMENSIONS,
    waiting=(selector(_WAITING),),
    running=selector(_RUNNING),
    ttft="trtllm_time_to_first_token_seconds",
    ended={SERVED: rate(_SUCCESS), FAILED: rate("trtllm_request_error_total")},
    ended_dimensions=_DIMENSIONS,
    kv_usage=recent(selector("trtllm_kv_cache_utilization")),
    tokens={
        TokenPart.PROMPT_TOKENS: "trtllm_prompt_tokens_total",
        TokenPart.PROMPTS: _SUCCESS,
        TokenPart.OUTPUT_TOKENS: "trtllm_generation_tokens_total",
        TokenPart.OUTPUTS: _SUCCESS,
    },
    advice=Advice(
        publish="trtllm-serve 1.3 or later at the path /prometheus/metrics",
        ttft="set return_perf_metrics: true in the LLM configuration of trtllm-serve",
        buckets="the buckets of trtllm-serve are fixed: declare a limit of 100, 250, 500, 750 or 1000 ms",
    ),
)
