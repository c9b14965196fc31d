"""Frontend of Dynamo, and NIM 3.x in its Dynamo mode: it counts requests as they come in.

Its labelled series are absent until the first request, and so is the family. Names: docs/design/runtimes.md 1.5 (Dynamo
1.6.1).
"""

from firsttoken_operator.families.family import Advice, MetricFamily
from firsttoken_operator.families.promql import rate, selector
from firsttoken_operator.families.signals import FAILED, SERVED, Arrivals, TokenPart

_STARTED, _ENDED = "dynamo_frontend_requests_started_total", "dynamo_frontend_requests_total"
_INPUT, _OUTPUT = "dynamo_frontend_input_sequence_tokens", "dynamo_frontend_output_sequence_tokens"
_REQUEST_DIMENSIONS = "model, endpoint, request_type"

DYNAMO = MetricFamily(
    name="Dynamo frontend",
    told_by=selector(_STARTED),
    dimensions=_REQUEST_DIMENSIONS,
    waiting=(selector("dynamo_frontend_queued_requests"),),
    running=selector("dynamo_frontend_active_requests"),
    started=_STARTED,
    arrivals=Arrivals.STARTED,
    ttft="dynamo_frontend_time_to_first_token_seconds",
    ended={SERVED: rate(_ENDED, 'status!="error"'), FAILED: rate(_ENDED, 'status="error"')},
    ended_dimensions=f"{_REQUEST_DIMENSIONS}, status, error_type",
    tokens={
        TokenPart.PROMPT_TOKENS: f"{_INPUT}_sum",
        TokenPart.PROMPTS: f"{_INPUT}_count",
        TokenPart.OUTPUT_TOKENS: f"{_OUTPUT}_sum",
        TokenPart.OUTPUTS: f"{_OUTPUT}_count",
    },
    advice=Advice(
        publish="Dynamo's frontend after its first request",
        buckets="set DYN_METRICS_TTFT_MIN, DYN_METRICS_TTFT_MAX and DYN_METRICS_TTFT_COUNT so that {limit} is a bound",
    ),
)
