"""From runs to profiles: what each run is about, which runs belong together, and points measured more than once.

What a file does not say (GPU, precision, parallelism for most tools) must be declared; it is never guessed, and a
declaration that contradicts the file is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from firsttoken_sizing.benchmarks.runs import Run
from firsttoken_sizing.catalog import resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile

MAX_SOURCE_LENGTH = 480
"""Characters of `Profile.source`: a BenchmarkProfile holds 512, and one file a point (vLLM) makes many names."""
SIGNIFICANT_DIGITS = 6
"""Of a stored figure: far more than two measurements of one point agree in, and no floating-point noise of an average
(3.2699999999999996)."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Facts that the user states about the runs, in place of or in agreement with the files. Names may be aliases."""

    model: str | None = None
    gpu: str | None = None
    precision: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    engine: str | None = None
    engine_version: str | None = None


class _Group(NamedTuple):
    """Properties that runs of one profile have in common.

    Lengths in whole tokens: first the requested ones where the tool recorded them, then the mean measured ones.
    """

    key: ConfigurationKey
    input_tokens: int
    output_tokens: int
    load: Load
    engine: str
    engine_version: str


def assemble(runs: Sequence[Run], declared: Declared) -> tuple[Profile, ...]:
    """One profile for each configuration, pair of lengths and kind of load, in the order they first appear.

    A profile's lengths are the mean *measured* ones, in whole tokens. Points measured at the same concurrency are
    averaged. Raises `InvalidInput` naming the command-line flag for what neither says.
    """
    groups: dict[_Group, list[Run]] = defaultdict(list)
    for run in runs:
        groups[_group(run, declared)].append(run)
    # Files that do not record what was asked for may have measured the lengths of another group: one profile, not two
    # of the same name.
    measured: dict[_Group, list[Run]] = defaultdict(list)
    for group, members in groups.items():
        measured[_with_measured_lengths(group, members)] += members
    return tuple(_profile(group, members) for group, members in measured.items())


def _group(run: Run, declared: Declared) -> _Group:
    return _Group(
        key=_configuration(run, declared),
        input_tokens=round(run.requested_input_tokens or run.input_tokens),
        output_tokens=round(run.requested_output_tokens or run.output_tokens),
        load=run.load,
        engine=declared.engine or run.engine or "",
        engine_version=declared.engine_version or run.engine_version or "",
    )


def _with_measured_lengths(group: _Group, runs: Sequence[Run]) -> _Group:
    return group._replace(
        input_tokens=round(fmean(run.input_tokens for run in runs)),
        output_tokens=round(fmean(run.output_tokens for run in runs)),
    )


def _configuration(run: Run, declared: Declared) -> ConfigurationKey:
    pipeline_parallel = _agreed(run, "--pipeline-parallel", declared.pipeline_parallel, run.pipeline_parallel) or 1
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
    """The canonical name of what the file and the user agree on; an unknown name in the file says nothing."""
    if declared is None and in_file is None:
        raise InvalidInput(flag, f"{run.where} does not say it", f"add {flag}, for example {flag} {example}")
    if declared is None:
        assert in_file is not None
        return resolve(in_file, run.where)
    wanted = resolve(declared, flag)
    if in_file is not None and _known(in_file, run.where, resolve) not in (None, wanted):
        raise InvalidInput(flag, f"{wanted} contradicts {run.where}, which says {in_file}", f"leave {flag} out")
    return wanted


def _known(name: str, field: str, resolve: Callable[[str, str], str]) -> str | None:
    try:
        return resolve(name, field)
    except InvalidInput:
        return None


def _tensor_parallel(run: Run, declared: Declared, pipeline_parallel: int) -> int:
    flag = "--tensor-parallel"
    if run.gpus_per_replica is None:
        agreed = _agreed(run, flag, declared.tensor_parallel, run.tensor_parallel)
        if agreed is None:
            raise InvalidInput(
                flag, f"{run.where} does not say it", f"add {flag}, the GPUs of one replica (1, 2, 4, 8)"
            )
        return agreed
    tensor_parallel = declared.tensor_parallel or run.gpus_per_replica // pipeline_parallel
    if tensor_parallel * pipeline_parallel != run.gpus_per_replica:
        raise InvalidInput(
            flag,
            f"{tensor_parallel} x {pipeline_parallel} contradicts {run.where}, which has {run.gpus_per_replica} GPUs",
            f"leave {flag} out",
        )
    return tensor_parallel


def _agreed(run: Run, flag: str, declared: int | None, in_file: int | None) -> int | None:
    if declared is not None and in_file is not None and declared != in_file:
        raise InvalidInput(flag, f"{declared} contradicts {run.where}, which says {in_file}", f"leave {flag} out")
    return in_file if declared is None else declared


def _profile(group: _Group, runs: Sequence[Run]) -> Profile:
    by_concurrency: dict[float, list[Point]] = defaultdict(list)
    for run in runs:
        offered = run.point.concurrency or run.point.offered_requests_per_second or run.point.requests_per_second
        by_concurrency[offered].append(run.point)
    return Profile(
        name=_name(group),
        key=group.key,
        input_tokens=float(group.input_tokens),
        output_tokens=float(group.output_tokens),
        load=group.load,
        points=tuple(_averaged(points) for _, points in sorted(by_concurrency.items())),
        engine=group.engine,
        engine_version=group.engine_version,
        source=_source(runs),
    )


def _source(runs: Sequence[Run]) -> str:
    """The tools and files of a profile, as many as fit, and how many more there are."""
    sources = list(dict.fromkeys(run.source for run in runs))
    for shown in range(len(sources), 0, -1):
        more = f" and {len(sources) - shown} more" if shown < len(sources) else ""
        joined = ", ".join(sources[:shown]) + more
        if len(joined) <= MAX_SOURCE_LENGTH:
            return joined
    return joined[:MAX_SOURCE_LENGTH]


def _averaged(points: Sequence[Point]) -> Point:
    """One point from repeated measurements of it; a statistic that one of them lacks is left out."""
    return replace(
        points[0].combined(points[1:], _mean_if_complete),
        requests_per_second=_rounded(fmean(point.requests_per_second for point in points)),
        concurrency=_mean_if_complete([points[0].concurrency]),
        offered_requests_per_second=_mean_if_complete([points[0].offered_requests_per_second]),
    )


def _mean_if_complete(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(fmean(known)) if len(known) == len(values) else None


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def _name(group: _Group) -> str:
    """A Kubernetes object name that tells two profiles apart as far as their content does."""
    key = group.key
    parts = [key.model.rpartition("/")[2], key.gpu, key.precision, f"tp{key.tensor_parallel}"]
    if key.pipeline_parallel > 1:
        parts.append(f"pp{key.pipeline_parallel}")
    parts += [f"{group.input_tokens}-{group.output_tokens}"]
    if group.load is not Load.CLOSED_LOOP:
        parts.append(group.load.value)
    parts += [part for part in (group.engine, group.engine_version) if part]
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
