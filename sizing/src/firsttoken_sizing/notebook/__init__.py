"""The sizing as a notebook uses it: plain strings in, answers out that show themselves.

    import firsttoken_sizing as ft

    ft.size("meta-llama/Llama-3.1-8B", gpus="H100-SXM-80GB", input_tokens=2000, output_tokens=200,
            requests_per_second=200, ttft_p95_ms=300)

Every answer has a short text, an HTML table, `to_rows()` and, with pandas, `to_frame()`. The arguments are those of
`Asked`. Errors are `InvalidInput`: one line that names the argument and the fix.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from firsttoken_sizing import benchmarks
from firsttoken_sizing.benchmarks import Declared, ImportResult
from firsttoken_sizing.errors import InvalidInput, one_of
from firsttoken_sizing.notebook.asked import Asked, in_our_words, request_of
from firsttoken_sizing.notebook.values import (
    MOST_CONCURRENCY,
    MOST_REPLICAS,
    count,
    measured_word,
    place,
    positive,
    several,
    text,
)
from firsttoken_sizing.optimize.places import Place, SideBySide, in_places
from firsttoken_sizing.optimize.size import size as size_of
from firsttoken_sizing.report.curves import Loads, Study, study
from firsttoken_sizing.request import Sizing, SizingRequest
from firsttoken_sizing.workload import Batching

if TYPE_CHECKING:
    from firsttoken_sizing.report.simulation import Simulated

__all__ = ["Asked", "curve", "read_benchmarks", "side_by_side", "simulate", "size"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _listed(function: _Function) -> _Function:
    """The function with every argument of `Asked` in its signature, which a notebook shows and completes."""
    own = list(inspect.signature(function).parameters.values())[:-1]
    kind = inspect.Parameter.KEYWORD_ONLY
    # NB: what may be left out has no default to show; `...` says that there is one.
    needed = Asked.__required_keys__
    words = [
        inspect.Parameter(name, kind, default=inspect.Parameter.empty if name in needed else ...)
        for name in Asked.__annotations__
    ]
    function.__signature__ = inspect.Signature([*own, *words])  # type: ignore[attr-defined]
    return function


@overload
def size(model: SizingRequest, /) -> Sizing: ...
@overload
def size(model: str, /, **asked: Unpack[Asked]) -> Sizing: ...
def size(model: str | SizingRequest, /, **asked: Any) -> Sizing:
    """The fewest GPUs that answer on time: how many replicas of which configuration, and why.

    `model` is a name of the catalog, or a whole `SizingRequest` in place of all words. An SLA that no size meets is an
    answer too (`feasible` is False). Raises `InvalidInput`.
    """
    if isinstance(model, SizingRequest):
        return size_of(model)
    with in_our_words():
        return size_of(request_of(model, asked))


def curve(
    model: str, /, *, concurrency: Sequence[int] = (), rates: Sequence[float] = (), **asked: Unpack[Asked]
) -> Study:
    """Latency against throughput of every configuration that the question allows; `plot()` draws it.

    `concurrency` are points of a closed loop (requests in one replica), `rates` of Poisson arrivals (requests/s of one
    replica); without them those that were measured, or a usual ladder. Raises `InvalidInput`.
    """
    with in_our_words():
        loads = Loads(
            tuple(
                count("concurrency", one, most=MOST_CONCURRENCY) for one in several("concurrency", concurrency, "[8]")
            ),
            tuple(positive("rates", one) for one in several("rates", rates, "[2.5]")),
        )
        return study(request_of(model, asked), loads)


def simulate(
    model: str,
    /,
    *,
    replicas: int | None = None,
    process: str | None = None,
    rate: float | None = None,
    concurrency: int | None = None,
    seconds: float = 600.0,
    seed: int = 1,
    **asked: Unpack[Asked],
) -> Simulated:
    """Discrete-event simulation of what `size` answers, or of so many `replicas` of it.

    `process` is `Poisson`, `Bursty` or `ClosedLoop`; without it, and without `rate` (requests/s) or `concurrency` (both
    of the whole fleet), the load is the one that was sized for. Raises `InvalidInput`, also where there is no size and
    `replicas` is not given.
    """
    # NB: imported here, because numba takes a second to load where it is installed.
    from firsttoken_sizing.report.simulation import Simulated
    from firsttoken_sizing.simulation.load import Process, load_of_size, simulate_load
    from firsttoken_sizing.simulation.outcome import summarize
    from firsttoken_sizing.simulation.subject import subject_of

    with in_our_words():
        request = request_of(model, asked)
        replicas = None if replicas is None else count("replicas", replicas, most=MOST_REPLICAS)
        rate = None if rate is None else positive("rate", rate)
        concurrency = None if concurrency is None else count("concurrency", concurrency, most=MOST_CONCURRENCY)
        seconds, seed = positive("seconds", seconds), count("seed", seed, least=0)
        sizing = size_of(request)
        if sizing.configuration is None or not (sizing.feasible or replicas):
            raise InvalidInput("replicas", f"there is no size to simulate ({sizing.reason})", "give replicas")
        subject = subject_of(request, sizing.configuration, sizing.batching or next(iter(Batching)))
        if isinstance(subject, str):
            raise InvalidInput("gpus", subject, "use larger GPUs or more of them")
        asked_process = None if process is None else one_of(Process, "process", text("process", process))
        load = load_of_size(sizing, asked_process, rate=rate, concurrency=concurrency, seconds=seconds, seed=seed)
        settings = replace(subject.settings, replicas=replicas or sizing.replicas)
        outcome, settings = simulate_load(subject, settings, load)
        return Simulated(
            namespace="",
            name=subject.key.model,
            subject=subject,
            settings=settings,
            arrivals=load.process.value,
            load=str(load),
            seed=seed,
            sla=request.sla,
            outcome=outcome,
            summary=summarize(outcome, *load.window, settings.kv_cache_tokens),
        )


def read_benchmarks(*files: str | Path, **declared: Any) -> ImportResult:
    """Result files of benchmark tools (JSON or CSV) as profiles, with what was left out and why.

    `declared` says what the files do not: `model`, `gpu`, `precision`, `tensor_parallel`, `pipeline_parallel`,
    `engine`, `engine_version`, and the settings of the engine where they were not those that it has as it is installed:
    `max_batch_size`, `max_batched_tokens`, `kv_cache_bits`, `gpu_memory_percent`.
    Raises `UnreadableBenchmark` and `InvalidInput`.
    """
    with in_our_words():
        known = Declared.__dataclass_fields__
        if unknown := [name for name in declared if name not in known]:
            raise InvalidInput(", ".join(unknown), "is not known", f"use {', '.join(known)}")
        said = {name: measured_word(name, value) for name, value in declared.items() if value is not None}
        return benchmarks.read_benchmarks([Path(file) for file in files], Declared(**said))  # type: ignore[arg-type]


def side_by_side(model: str, /, *, places: Iterable[Place], **asked: Unpack[Asked]) -> SideBySide:
    """The same question in several places, such as servers of one's own and GPUs by the hour. Raises `InvalidInput`."""
    with in_our_words():
        every = [place(one) for one in several("places", places, "[Place(name, gpu)]")]
        return SideBySide(in_places(request_of(model, asked), every))


for _function in (size, curve, simulate, side_by_side):
    _listed(_function)
