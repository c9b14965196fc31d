"""The table of benchmark formats. A new one is a module with a recognizer and a reader, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firsttoken_sizing.benchmarks import (
    aiperf,
    aiperf_sweep,
    companions,
    dli_csv,
    genai_perf,
    guidellm,
    inference_perf,
    trtllm_bench,
    vllm_bench,
)
from firsttoken_sizing.benchmarks.document import Document
from firsttoken_sizing.benchmarks.runs import Refused, Run


@dataclass(frozen=True, slots=True)
class Format:
    """One file format: how to tell it, and how to read it."""

    name: str
    recognizes: Callable[[Document], bool]
    read: Callable[[Document], Sequence[Run | Refused]]
    """Every run of the document; raises `UnreadableBenchmark`."""


FORMATS = (
    Format("DLI flattened CSV", dli_csv.recognizes, dli_csv.read),
    Format("GenAI-Perf JSON with nested settings (0.0.16)", genai_perf.recognizes_nested, genai_perf.read_nested),
    Format("GenAI-Perf JSON with flat settings (0.0.8)", genai_perf.recognizes_flat, genai_perf.read_flat),
    Format("AIPerf JSON", aiperf.recognizes, aiperf.read),
    Format("AIPerf sweep JSON", aiperf_sweep.recognizes, aiperf_sweep.read),
    Format("vLLM bench serve JSON", vllm_bench.recognizes, vllm_bench.read),
    Format("guidellm JSON", guidellm.recognizes, guidellm.read),
    Format("trtllm-bench report JSON", trtllm_bench.recognizes, trtllm_bench.read),
    Format("inference-perf stage JSON", inference_perf.recognizes, inference_perf.read),
)


def detect(document: Document) -> Format:
    """The format of a document. Raises `UnreadableBenchmark` with the known formats where it is none of them."""
    for known in FORMATS:
        if known.recognizes(document):
            return known
    if (advice := companions.advice(document)) is not None:
        raise document.unreadable(advice)
    names = "; ".join(known.name for known in FORMATS)
    raise document.unreadable(f"is not a benchmark format that can be imported ({names})")
