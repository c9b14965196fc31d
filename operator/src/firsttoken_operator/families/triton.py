"""Triton: one set of series a model, and nothing of what goes on inside a model.

`nv_inference_request_success` grows when a model's `execute` is done with a request: at the end of an answer that it
makes itself, and at once where it hands the request to an engine of its own (llmapi, vLLM). Both left the queue then,
so that what left it and the growth of what waits are what arrived. A Python model that answers with an error counts as
a success, one that raises as a failure; a request that a full queue turns away counts as nothing (tried with 2.51).

First responses are a histogram in milliseconds, of decoupled models only and only where it is asked for; Triton 2.51
has none at all (`metric_model_reporter.cc` of triton core; docs/design/runtimes.md 1.2). What waits in any model of a
server waits once; requests are counted by each model that they pass, so those of one model are read.
"""

from firsttoken_operator.families.family import Advice, Metric, MetricFamily, counter, gauge, histogram
from firsttoken_operator.families.promql import rate, selector
from firsttoken_operator.families.signals import FAILED, REJECTED, SERVED, Arrivals

MODEL = "model"
SUCCESS, FAILURE = "nv_inference_request_success", "nv_inference_request_failure"
PENDING, FIRST_RESPONSE = "nv_inference_pending_request_count", "nv_inference_first_response_histogram_ms"
_CANCELED = rate(FAILURE, 'reason="CANCELED"')
ENDED = {
    SERVED: f"{rate(SUCCESS)} or {_CANCELED}",
    FAILED: rate(FAILURE, 'reason!~"CANCELED|REJECTED"'),
    REJECTED: rate(FAILURE, 'reason="REJECTED"'),
}
"""Rates by outcome. A request that a client broke off is its own doing and no failure of the server."""
ENDED_DIMENSIONS = "version, reason"
ADVICE = Advice(
    publish="Triton's port 8002, which --allow-metrics=false closes",
    ttft=(
        "start a Triton later than 2.51 with --metrics-config=histogram_latencies=true and make the model decoupled "
        "(model_transaction_policy { decoupled: true }); of other models it publishes none"
    ),
    buckets=(
        "put {limit} among the histogram_options of nv_inference_first_response_histogram_ms in the model's "
        "config.pbtxt (model_metrics) and load it again"
    ),
)

_BOUNDS_MILLISECONDS = (100.0, 500.0, 2000.0, 5000.0)
"""Bounds of the histogram of first responses, as installed."""

TRITON = MetricFamily(
    name="Triton",
    runtime="triton",
    told_by=selector(SUCCESS),
    model_label=MODEL,
    dimensions="version",
    waiting=(selector(PENDING),),
    arrivals=Arrivals.ENDED,
    ttft=FIRST_RESPONSE,
    ttft_unit_seconds=0.001,
    ended=ENDED,
    ended_dimensions=ENDED_DIMENSIONS,
    advice=ADVICE,
    page=(
        # As of a model that hands its requests on: one that makes each answer itself has no batch to emulate.
        counter(Metric.TAKEN, SUCCESS),
        counter(
            Metric.FINISHED,
            FAILURE,
            label="reason",
            text="Requests that failed, by reason.",
            values={"abort": "CANCELED", "error": "BACKEND", "rejected": "REJECTED", "other": "OTHER"},
        ),
        gauge(Metric.WAITING, PENDING),
        histogram(Metric.TTFT, FIRST_RESPONSE, _BOUNDS_MILLISECONDS),
    ),
    page_labels={"version": "1"},
)
