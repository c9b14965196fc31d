"""vLLM >= 0.8, and NIM 2.x and 3.x in standard mode, which pass vLLM's series through.

`vllm:request_success_total` counts every finish reason, errors and aborts too, and `vllm:admission_rejections_total`
what never got in. An abort is the client's doing and no failure of the server. The KV gauge was renamed in 0.9-0.12;
`engine` is the data-parallel rank: ranks are added up, for the KV cache the fullest counts.
"""

from firsttoken_operator.observe.families import (
    FAILED,
    SERVED,
    Family,
    labelled,
    rate,
    selector,
    standard_templates,
)

_FINISHED = "vllm:request_success_total"

VLLM = Family(
    name="vLLM",
    templates=standard_templates(
        dimensions="engine, model_name",
        ttft="vllm:time_to_first_token_seconds",
        waiting="vllm:num_requests_waiting",
        running="vllm:num_requests_running",
        ended=" or ".join(
            (
                labelled(rate(_FINISHED, 'finished_reason!="error"'), SERVED),
                labelled(rate(_FINISHED, 'finished_reason="error"'), FAILED),
                labelled(rate("vllm:admission_rejections_total"), FAILED),
            )
        ),
        ended_dimensions="engine, model_name, finished_reason, reason",
        kv_usage=f"{selector('vllm:kv_cache_usage_perc')} or {selector('vllm:gpu_cache_usage_perc')}",
    ),
)
