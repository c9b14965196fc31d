"""vLLM >= 0.8, and NIM 2.x and 3.x in standard mode, which pass vLLM's series through.

`vllm:request_success_total` counts every finish reason, errors and aborts too, and `vllm:admission_rejections_total`
what never got in. An abort is the client's doing and no failure of the server. The KV gauge was renamed in 0.9-0.12;
`engine` is the data-parallel rank: ranks are added up, for the KV cache the fullest counts.

`vllm:prompt_tokens_total` grows by a whole prompt, cached tokens included, at the step that observes its TTFT
(`vllm/v1/metrics/stats.py`), so the two are of the same requests; the histogram of outputs is filled at the end.
"""

from firsttoken_operator.observe.families import Family, TokenPart, outcomes, rate, selector, standard_templates

_FINISHED = "vllm:request_success_total"
_TTFT = "vllm:time_to_first_token_seconds"

VLLM = Family(
    name="vLLM",
    templates=standard_templates(
        dimensions="engine, model_name",
        ttft=_TTFT,
        waiting="vllm:num_requests_waiting",
        running="vllm:num_requests_running",
        ended=outcomes(
            rate(_FINISHED, 'finished_reason!="error"'),
            rate(_FINISHED, 'finished_reason="error"'),
            rate("vllm:admission_rejections_total"),
        ),
        ended_dimensions="engine, model_name, finished_reason, reason",
        kv_usage=f"{selector('vllm:kv_cache_usage_perc')} or {selector('vllm:gpu_cache_usage_perc')}",
        tokens={
            TokenPart.PROMPT_TOKENS: "vllm:prompt_tokens_total",
            TokenPart.PROMPTS: f"{_TTFT}_count",
            TokenPart.OUTPUT_TOKENS: "vllm:request_generation_tokens_sum",
            TokenPart.OUTPUTS: "vllm:request_generation_tokens_count",
        },
    ),
)
