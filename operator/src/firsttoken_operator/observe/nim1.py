"""NIM for LLMs 1.x: names without a prefix, one label `model_name`, TTFT buckets that jump from 0.25 s to 0.5 s.

`request_success_total` counts finish reasons stop and length, `request_failure_total` the rest (NIM observability
documentation, and `nim_metrics.txt` of DataDog/integrations-core). NIM 2.x and later expose their engine's family.
Nobody says when `prompt_tokens_total` grows; the histograms of both token counts are of the same requests for certain.
"""

from firsttoken_operator.observe.families import Family, TokenPart, outcomes, rate, selector, standard_templates

NIM1 = Family(
    name="NIM 1.x",
    templates=standard_templates(
        dimensions="model_name",
        ttft="time_to_first_token_seconds",
        waiting="num_requests_waiting",
        running="num_requests_running",
        ended=outcomes(rate("request_success_total"), rate("request_failure_total")),
        ended_dimensions="model_name",
        kv_usage=selector("gpu_cache_usage_perc"),
        tokens={
            TokenPart.PROMPT_TOKENS: "request_prompt_tokens_sum",
            TokenPart.PROMPTS: "request_prompt_tokens_count",
            TokenPart.OUTPUT_TOKENS: "request_generation_tokens_sum",
            TokenPart.OUTPUTS: "request_generation_tokens_count",
        },
    ),
)
