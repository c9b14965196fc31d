"""Reader of `trtllm-bench --report_json`: one run a file, times in milliseconds.

The only one of the formats that knows its GPU, precision, parallelism and engine version. It does not know the
`--concurrency` of the run, and without one all requests are sent at once: the TTFT is then that of a backlog and is
left out (`loads`). Latencies of tokens are there only with `--streaming`.

NB: `issue_rate` may be `Infinity`, which is no JSON; other values of it are no usable rate and are not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from firsttoken_sizing.benchmarks.document import Document, label, mapping
from firsttoken_sizing.benchmarks.loads import BACKLOG_REMARK, WITHOUT_BATCH, backlog_point
from firsttoken_sizing.benchmarks.runs import Declared, Refused, Run
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import Latency, Load, Point

BACKLOG_SHARE = 0.5
"""A request that took this share of the whole run was sent at its beginning and waited: no closed loop of a useful
length has one."""
_DTYPES = {"bfloat16": "BF16", "float16": "FP16"}
_QUANTIZATIONS = {
    "FP8": "FP8",
    "FP8_BLOCK_SCALES": "FP8",
    "FP8_PER_CHANNEL_PER_TOKEN": "FP8",
    "NVFP4": "NVFP4",
    "W4A16": "INT4",
    "W4A16_AWQ": "INT4",
    "W4A16_GPTQ": "INT4",
    "W4A8_AWQ": "INT4",
    "W8A16": "INT8",
    "W4A16_MXFP4": "MXFP4",
    "W4A8_MXFP4_FP8": "MXFP4",
    "W4A8_MXFP4_MXFP8": "MXFP4",
}
_UNQUANTIZED = (None, "", "NO_QUANT")


def recognizes(document: Document) -> bool:
    """Recognize a document in this format."""
    return "tp_size" in mapping(document.fields.get("world_info")) and "request_info" in document.fields


def read(document: Document) -> list[Run | Refused]:
    """The run of the file, or why it is refused. Raises `UnreadableBenchmark`."""
    requests, world = mapping(document.fields["request_info"]), mapping(document.fields["world_info"])
    engine = mapping(document.fields.get("engine"))
    output_tokens = document.number(requests.get("avg_output_length"), "request_info.avg_output_length")
    at_once = _all_at_once(document)
    if at_once:
        point = backlog_point(_throughput(document), _streamed(document, "tpot"), output_tokens)
    else:
        point = _closed_loop(document)
    if point is None:
        return [Refused(document.file, WITHOUT_BATCH)]
    return [
        Run(
            where=document.file,
            source=f"trtllm-bench {document.name}",
            load=Load.CLOSED_LOOP,
            input_tokens=document.number(requests.get("avg_input_length"), "request_info.avg_input_length"),
            output_tokens=output_tokens,
            point=point,
            times="milliseconds",
            declared=Declared(
                model=label(engine.get("model")),
                gpu=label(mapping(document.fields.get("machine")).get("name")),
                precision=_precision(engine),
                tensor_parallel=document.whole(world["tp_size"], "world_info.tp_size"),
                pipeline_parallel=document.whole(world.get("pp_size"), "world_info.pp_size"),
                engine=Engine.TENSORRT_LLM.value,
                engine_version=label(engine.get("version")),
            ),
            remarks=(BACKLOG_REMARK,) if at_once else (),
        )
    ]


def _all_at_once(document: Document) -> bool:
    """Tell whether the run sent its requests at once, as it does without `--concurrency`."""
    issued = mapping(document.fields["world_info"]).get("issue_rate")
    if isinstance(issued, float) and math.isinf(issued):
        return True
    performance = _performance(document)
    whole = document.number(performance.get("total_latency_ms"), "performance.total_latency_ms")
    percentiles = mapping(performance.get("request_latency_percentiles_ms"))
    longest = document.number(percentiles.get("maximum"), "performance.request_latency_percentiles_ms.maximum")
    return longest >= BACKLOG_SHARE * whole


def _closed_loop(document: Document) -> Point:
    """The point of a run with `--concurrency`: its mean number of requests in flight, which the file does know."""
    requests, performance = mapping(document.fields["request_info"]), _performance(document)
    percentiles = mapping(performance.get("request_latency_percentiles_ms"))
    values = {"mean": performance.get("avg_request_latency_ms"), **percentiles}
    return Point(
        requests_per_second=_throughput(document),
        concurrency=document.number(
            requests.get("avg_num_concurrent_requests"), "request_info.avg_num_concurrent_requests"
        ),
        ttft=_streamed(document, "ttft"),
        itl=_streamed(document, "tpot"),
        end_to_end=document.latency(values, "performance: request latency "),
    )


def _streamed(document: Document, metric: str) -> Latency:
    """Statistics of a latency that only `--streaming` measures, else empty."""
    streaming = mapping(document.fields.get("streaming_metrics"))
    values = {"mean": streaming.get(f"avg_{metric}_ms"), **mapping(streaming.get(f"{metric}_percentiles"))}
    return document.latency(values, f"streaming_metrics: {metric} ")


def _throughput(document: Document) -> float:
    return document.number(
        _performance(document).get("request_throughput_req_s"), "performance.request_throughput_req_s"
    )


def _precision(engine: Mapping[str, Any]) -> str | None:
    """The number format of the weights; None for a quantization that does not name one, which is then asked for."""
    quantization = engine.get("quantization")
    if quantization in _UNQUANTIZED:
        return _DTYPES.get(str(engine.get("dtype")).removeprefix("torch."))
    return _QUANTIZATIONS.get(str(quantization))


def _performance(document: Document) -> Mapping[str, Any]:
    return mapping(document.fields.get("performance"))
