"""SGLang, and NIM 2.x with its SGLang engine, which passes the series through.

`sglang:num_requests_total` grows when a request is done. Ranks of tensor and pipeline parallelism each tell the same
numbers (`tp_rank`, `pp_rank`): they are folded, and those of data parallelism (`dp_rank`) are added up. So are first
tokens of answers that stream and of those that do not (`is_streaming`), which have a histogram each. Names:
docs/design/runtimes.md 1.5 (SGLang 0.5.23).
"""

from firsttoken_operator.families.family import Advice, MetricFamily
from firsttoken_operator.families.promql import rate, recent, selector
from firsttoken_operator.families.signals import SERVED, TokenPart

_RUNNING, _WAITING, _REQUESTS = "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:num_requests_total"
_DIMENSIONS = "model_name, dp_rank, is_streaming"

SGLANG = MetricFamily(
    name="SGLang",
    told_by=selector(_RUNNING),
    dimensions=_DIMENSIONS,
    waiting=(selector(_WAITING),),
    running=selector(_RUNNING),
    ttft="sglang:time_to_first_token_seconds",
    ended={SERVED: rate(_REQUESTS)},
    ended_dimensions=_DIMENSIONS,
    kv_usage=recent(selector("sglang:token_usage")),
    tokens={
        TokenPart.PROMPT_TOKENS: "sglang:prompt_tokens_total",
        TokenPart.PROMPTS: _REQUESTS,
        TokenPart.OUTPUT_TOKENS: "sglang:generation_tokens_total",
        TokenPart.OUTPUTS: _REQUESTS,
    },
    advice=Advice(
        publish="SGLang with --enable-metrics",
        buckets="start SGLang with --bucket-time-to-first-token and {limit} among its bounds",
    ),
)
