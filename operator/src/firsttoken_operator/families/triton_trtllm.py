"""Triton with the C++ backend of TensorRT-LLM, which tells of its batch and its KV cache (23.11 and later).

All gauges carry the name of the model that runs the engine (`tensorrt_llm`): every request passes it once, whether the
clients call it, an ensemble or a script around it, so its series of Triton are the ones that are read. A request waits
in Triton's queue or in the engine's. The histograms of tokens end at 1000: sums and counts only. The llmapi backend
publishes none of this and is read as plain Triton. Names: docs/design/runtimes.md 1.2 (`custom_metrics_reporter.cc`).
"""

from firsttoken_operator.families.family import MetricFamily
from firsttoken_operator.families.promql import recent, selector
from firsttoken_operator.families.signals import TokenPart
from firsttoken_operator.families.triton import ADVICE, ENDED, ENDED_DIMENSIONS, FIRST_RESPONSE, MODEL, PENDING, TRITON

_REQUESTS, _KV_BLOCKS = "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"
_PROMPT, _OUTPUT = "nv_llm_input_token_len", "nv_llm_output_token_len"

TRITON_TRTLLM = MetricFamily(
    name="Triton TensorRT-LLM",
    told_by=selector(_REQUESTS, 'request_type="active"'),
    model_label=MODEL,
    only_where=selector(_REQUESTS, 'request_type="active"'),
    dimensions="version",
    waiting=(selector(_REQUESTS, 'request_type="waiting"'), selector(PENDING)),
    running=selector(_REQUESTS, 'request_type="scheduled"'),
    ttft=FIRST_RESPONSE,
    ttft_unit_seconds=0.001,
    ended=ENDED,
    ended_dimensions=ENDED_DIMENSIONS,
    kv_usage=recent(selector(_KV_BLOCKS, 'kv_cache_block_type="fraction"')),
    tokens={
        TokenPart.PROMPT_TOKENS: f"{_PROMPT}_sum",
        TokenPart.PROMPTS: f"{_PROMPT}_count",
        TokenPart.OUTPUT_TOKENS: f"{_OUTPUT}_sum",
        TokenPart.OUTPUTS: f"{_OUTPUT}_count",
    },
    includes=(TRITON.name,),
    advice=ADVICE,
)
