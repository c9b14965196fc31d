"""Reader of the flattened CSV of NVIDIA's sizing course: GenAI-Perf results of many runs, one a line.

Columns are `<metric>-<statistic>` with the unit in `<metric>-unit` (nanoseconds in the original), the run's settings in
`task_inputs-*` and `input_config-*`. The file says model, GPU, precision and the number of GPUs of a replica.
"""

from __future__ import annotations

from firsttoken_sizing.benchmarks.document import PER_MILLISECOND, Document, Row
from firsttoken_sizing.benchmarks.runs import Declared, Run
from firsttoken_sizing.engines import proper_name
from firsttoken_sizing.profile import STATISTICS, Latency, Load, Point

_TIMES = ("time_to_first_token", "inter_token_latency", "request_latency")
# Names of the measured lengths: of the course's file, and of later GenAI-Perf releases flattened in the same way.
_INPUT_LENGTHS = ("num_input_token-avg", "input_sequence_length-avg")
_OUTPUT_LENGTHS = ("num_output_token-avg", "output_sequence_length-avg")
_REQUIRED = (
    "task_inputs-model",
    "task_inputs-GPU",
    "task_inputs-n_gpus",
    "task_inputs-precision",
    "input_config-concurrency",
    "request_throughput-avg",
    "request_latency-avg",
    "request_latency-unit",
)


def recognizes(document: Document) -> bool:
    """Recognize a document in this format."""
    return "task_inputs-model" in document.columns


def read(document: Document) -> list[Run]:
    """Every run of the file, times in milliseconds. Raises `UnreadableBenchmark`."""
    missing = [column for column in _REQUIRED if column not in document.columns]
    if missing:
        raise document.unreadable(f"has no column {missing[0]}")
    if document.ragged is not None:
        raise document.unreadable(document.ragged)
    unit = _unit_of_time(document)
    return [_run(document, row, unit) for row in document.rows]


def _unit_of_time(document: Document) -> str:
    """The one unit of time of the file. Mixed units mean files were joined by hand: better refused than guessed."""
    columns = [f"{metric}-unit" for metric in _TIMES if f"{metric}-unit" in document.columns]
    units = sorted({row.cells[column].strip() for row in document.rows for column in columns})
    if len(units) > 1:
        raise document.unreadable(f"mixes units of time ({', '.join(units)}); split it by unit")
    if units[0] not in PER_MILLISECOND:
        raise document.unreadable(f"has times in {units[0]!r}, not in one of {', '.join(PER_MILLISECOND)}")
    return units[0]


def _run(document: Document, row: Row, unit: str) -> Run:
    where = f"line {row.where.rpartition(' ')[2]}: "

    def latency(metric: str) -> Latency:
        columns = {"mean": f"{metric}-avg"} | {s: f"{metric}-{s}" for s in STATISTICS[1:]}
        return document.latency(row.cells, where, columns, PER_MILLISECOND[unit])

    def number(*columns: str) -> float:
        present = next((column for column in columns if column in row.cells), columns[0])
        return document.number(row.cells.get(present), f"{where}{present}")

    def requested(column: str) -> float | None:
        return document.optional_number(row.cells.get(column), f"{where}{column}")

    def name(column: str) -> str | None:
        return row.cells[column].strip() or None

    gpus = number("task_inputs-n_gpus")
    if not gpus.is_integer():
        raise document.unreadable(f"{where}task_inputs-n_gpus is not a whole number: {gpus}")
    engine = row.cells.get("task_inputs-execution_type", "").strip()
    end_to_end = latency("request_latency")
    if end_to_end.mean is None:
        raise document.unreadable(f"{where}request_latency-avg is missing")
    return Run(
        where=row.where,
        source=f"DLI flattened CSV {document.name}",
        load=Load.CLOSED_LOOP,
        input_tokens=number(*_INPUT_LENGTHS),
        output_tokens=number(*_OUTPUT_LENGTHS),
        requested_input_tokens=requested("input_config-synthetic_input_tokens_mean"),
        requested_output_tokens=requested("input_config-output_tokens_mean"),
        point=Point(
            requests_per_second=number("request_throughput-avg"),
            concurrency=number("input_config-concurrency"),
            ttft=latency("time_to_first_token"),
            itl=latency("inter_token_latency"),
            end_to_end=end_to_end,
        ),
        times=f"{unit}, which its columns *-unit say",
        declared=Declared(
            model=name("task_inputs-model"),
            gpu=name("task_inputs-GPU"),
            precision=name("task_inputs-precision"),
            engine=proper_name(engine) or None,
        ),
        gpus_per_replica=int(gpus),
    )
