"""From runs to profiles: what each run is about, which runs belong together, and points measured more than once.

What a file does not say (GPU, precision, parallelism for most tools) must be declared; it is never guessed, and a
declaration that contradicts the file is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, TypeVar

from firsttoken_sizing.benchmarks.runs import Run
from firsttoken_sizing.catalog import resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Declared:
    """What the user says about the runs, in place of or in agreement with the files. Names may be aliases."""

    model: str | None = None
    gpu: str | None = None
    precision: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    engine: str | None = None
    engine_version: str | None = None


class _Group(NamedTuple):
    """What runs of one profile have in common; the lengths are the requested ones where the tool recorded them."""

    key: ConfigurationKey
    input_tokens: int
    output_tokens: int
    load: Load
    engine: str


def assemble(runs: Sequence[Run], declared: Declared) -> tuple[Profile, ...]:
    """One profile for each configuration, pair of lengths and kind of load, in the order they first appear.

    A profile's lengths are the mean *measured* ones, in whole tokens. Points measured at the same concurrency are
    averaged. Raises `InvalidInput` naming the command-line flag for what nobody said.
    """
    groups: dict[_Group, list[Run]] = defaultdict(list)
    for run in runs:
        groups[_group(run, declared)].append(run)
    return tuple(_profile(group, members, declared) for group, members in groups.items())


def _group(run: Run, declared: Declared) -> _Group:
    return _Group(
        key=_configuration(run, declared),
        input_tokens=round(run.requested_input_tokens or run.input_tokens),
        output_tokens=round(run.requested_output_tokens or run.output_tokens),
        load=run.load,
        engine=declared.engine or run.engine or "",
    )


def _configuration(run: Run, declared: Declared) -> ConfigurationKey:
    pipeline_parallel = declared.pipeline_parallel or 1
    return ConfigurationKey(
        model=_model(run, declared),
        gpu=_settled(run, "--gpu", "H100-SXM-80GB", declared.gpu, run.gpu, lambda n, f: resolve_gpu(n, field=f).name),
        precision=_settled(run, "--precision", "FP8", declared.precision, run.precision, _precision),
        tensor_parallel=_tensor_parallel(run, declared, pipeline_parallel),
        pipeline_parallel=pipeline_parallel,
    )


def _model(run: Run, declared: Declared) -> str:
    """The declared model, else the one of the file: servers give models any name, so a declaration wins."""
    if declared.model is not None:
        return resolve_model(declared.model, field="--model").name
    if run.model is None:
        raise InvalidInput("--model", f"{run.where} does not say which model was measured", "add --model NAME")
    try:
        return resolve_model(run.model).name
    except InvalidInput as error:
        raise InvalidInput(
            "--model", f"{run.where} names the model {run.model!r}, which the catalog does not have", "add --model NAME"
        ) from error


def _precision(name: str, field: str) -> str:
    return resolve_precision(name, field=field)


def _settled(
    run: Run, flag: str, example: str, declared: str | None, in_file: str | None, resolve: Callable[[str, str], str]
) -> str:
    """The canonical name of what the file and the user agree on."""
    if declared is None and in_file is None:
        raise InvalidInput(flag, f"{run.where} does not say it", f"add {flag}, for example {flag} {example}")
    says = None if in_file is None else resolve(in_file, run.where)
    if declared is None:
        assert says is not None
        return says
    wanted = resolve(declared, flag)
    if says is not None and says != wanted:
        raise InvalidInput(flag, f"{wanted} contradicts {run.where}, which says {in_file}", f"leave {flag} out")
    return wanted


def _tensor_parallel(run: Run, declared: Declared, pipeline_parallel: int) -> int:
    flag = "--tensor-parallel"
    if run.gpus_per_replica is None:
        if declared.tensor_parallel is None:
            raise InvalidInput(
                flag, f"{run.where} does not say it", f"add {flag}, the GPUs of one replica (1, 2, 4, 8)"
            )
        return declared.tensor_parallel
    tensor_parallel = declared.tensor_parallel or run.gpus_per_replica // pipeline_parallel
    if tensor_parallel * pipeline_parallel != run.gpus_per_replica:
        raise InvalidInput(
            flag,
            f"{tensor_parallel} x {pipeline_parallel} contradicts {run.where}, which has {run.gpus_per_replica} GPUs",
            f"leave {flag} out",
        )
    return tensor_parallel


def _profile(group: _Group, runs: Sequence[Run], declared: Declared) -> Profile:
    by_concurrency: dict[float, list[Point]] = defaultdict(list)
    for run in runs:
        offered = run.point.concurrency or run.point.offered_requests_per_second or run.point.requests_per_second
        by_concurrency[offered].append(run.point)
    input_tokens = float(round(fmean(run.input_tokens for run in runs)))
    output_tokens = float(round(fmean(run.output_tokens for run in runs)))
    engine_version = declared.engine_version or ""
    return Profile(
        name=_name(group, input_tokens, output_tokens, engine_version),
        key=group.key,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        load=group.load,
        points=tuple(_averaged(points) for _, points in sorted(by_concurrency.items())),
        engine=group.engine,
        engine_version=engine_version,
        source=", ".join(dict.fromkeys(run.source for run in runs)),
    )


def _averaged(points: Sequence[Point]) -> Point:
    """One point from repeated measurements of it; a statistic that one of them lacks is left out."""
    return Point(
        requests_per_second=fmean(point.requests_per_second for point in points),
        concurrency=points[0].concurrency,
        offered_requests_per_second=points[0].offered_requests_per_second,
        ttft=_averaged_latency([point.ttft for point in points]),
        itl=_averaged_latency([point.itl for point in points]),
        end_to_end=_averaged_latency([point.end_to_end for point in points]),
    )


def _averaged_latency(latencies: Sequence[Latency]) -> Latency:
    return Latency(
        mean=_mean_if_complete(latency.mean for latency in latencies),
        p50=_mean_if_complete(latency.p50 for latency in latencies),
        p90=_mean_if_complete(latency.p90 for latency in latencies),
        p95=_mean_if_complete(latency.p95 for latency in latencies),
        p99=_mean_if_complete(latency.p99 for latency in latencies),
    )


def _mean_if_complete(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _name(group: _Group, input_tokens: float, output_tokens: float, engine_version: str) -> str:
    """A Kubernetes object name that tells two profiles apart as far as their content does."""
    key = group.key
    parts = [key.model.rpartition("/")[2], key.gpu, key.precision, f"tp{key.tensor_parallel}"]
    if key.pipeline_parallel > 1:
        parts.append(f"pp{key.pipeline_parallel}")
    parts += [f"{input_tokens:.0f}-{output_tokens:.0f}"]
    if group.load is not Load.CLOSED_LOOP:
        parts.append(group.load.value)
    parts += [part for part in (group.engine, engine_version) if part]
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
