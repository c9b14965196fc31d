"""Triton with the vLLM backend, which passes some of vLLM's series on with Triton's labels `model` and `version`.

There is no gauge of its batch, its queue or its KV cache. But `execute` hands every request to the engine at once, so
Triton counts it as a success when it comes in: that is what arrives, also while first tokens lag behind. Names:
docs/design/runtimes.md 1.2 (vllm_backend 8de0c14).
"""

from firsttoken_operator.families.family import Advice, MetricFamily
from firsttoken_operator.families.promql import selector
from firsttoken_operator.families.signals import Arrivals, TokenPart
from firsttoken_operator.families.triton import ENDED, ENDED_DIMENSIONS, MODEL, PENDING, SUCCESS, TRITON
from firsttoken_operator.families.vllm import PROMPT_TOKENS, REQUEST_OUTPUT, REQUEST_PROMPT, TTFT

_OF_TRITON = 'version!=""'
_TOLD_BY = selector(PROMPT_TOKENS, _OF_TRITON)

TRITON_VLLM = MetricFamily(
    name="Triton vLLM",
    told_by=_TOLD_BY,
    model_label=MODEL,
    only_where=_TOLD_BY,
    dimensions="version",
    waiting=(selector(PENDING),),
    started=SUCCESS,
    arrivals=Arrivals.STARTED,
    ttft=TTFT,
    ended=ENDED,
    ended_dimensions=ENDED_DIMENSIONS,
    tokens={
        TokenPart.PROMPT_TOKENS: f"{REQUEST_PROMPT}_sum",
        TokenPart.PROMPTS: f"{REQUEST_PROMPT}_count",
        TokenPart.OUTPUT_TOKENS: f"{REQUEST_OUTPUT}_sum",
        TokenPart.OUTPUTS: f"{REQUEST_OUTPUT}_count",
    },
    includes=(TRITON.name,),
    advice=Advice(ttft="start the vLLM backend with REPORT_CUSTOM_METRICS=true in the model's config.pbtxt"),
)
