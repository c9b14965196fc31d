"""Profiles assembled from runs: what each is about, which belong together, and points measured more than once.

What a file does not say (GPU, precision, parallelism for most tools) must be declared; it is never guessed, and a
declaration that contradicts the file is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from firsttoken_sizing.benchmarks.runs import Declared, Run
from firsttoken_sizing.catalog import resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile

MAX_SOURCE_LENGTH = 480
"""Characters of `Profile.source`: a BenchmarkProfile holds 512, and one file a point (vLLM) makes many names."""
SIGNIFICANT_DIGITS = 6
"""Digits of a stored figure: far more than two measurements of one point agree in, and no floating-point noise of an
average (3.2699999999999996)."""

Declarable = TypeVar("Declarable", int, str)


def assemble(runs: Sequence[Run], declared: Declared) -> tuple[Profile, ...]:
    """One profile for each configuration, pair of lengths and kind of load, in the order they first appear.

    A profile's lengths are the mean *measured* ones, in whole tokens. Points measured at the same concurrency are
    averaged. Raises `InvalidInput` naming the command-line flag for what neither says.
    """
    requested: dict[Profile, list[Run]] = defaultdict(list)
    for run in runs:
        requested[_subject(run, declared)].append(run)
    # Files that do not record what was asked for may have measured the lengths of another group: one profile, not two
    # of the same name.
    measured: dict[Profile, list[Run]] = defaultdict(list)
    for subject, members in requested.items():
        measured[_with_measured_lengths(subject, members)] += members
    return tuple(
        replace(subject, name=_name(subject), points=_points(members), source=_source(members))
        for subject, members in measured.items()
    )


def _subject(run: Run, declared: Declared) -> Profile:
    """The profile of a run, yet without name and points; its lengths are those asked for where the tool says them."""
    return Profile(
        name="",
        key=_configuration(run, declared),
        input_tokens=float(round(run.requested_input_tokens or run.input_tokens)),
        output_tokens=float(round(run.requested_output_tokens or run.output_tokens)),
        load=run.load,
        points=(),
        engine=declared.engine or run.declared.engine or "",
        engine_version=declared.engine_version or run.declared.engine_version or "",
        settings=declared.settings(run.declared),
    )


def _with_measured_lengths(subject: Profile, runs: Sequence[Run]) -> Profile:
    return replace(
        subject,
        input_tokens=float(round(fmean(run.input_tokens for run in runs))),
        output_tokens=float(round(fmean(run.output_tokens for run in runs))),
    )


def _configuration(run: Run, declared: Declared) -> ConfigurationKey:
    in_file = run.declared
    stages = _agreed(run, "--pipeline-parallel", declared.pipeline_parallel, in_file.pipeline_parallel) or 1
    model = _model(run, declared)
    gpu = _agreed(run, "--gpu", declared.gpu, in_file.gpu, _gpu)
    gpu = _said(gpu, run, "--gpu", "for example --gpu H100-SXM-80GB")
    precision = _agreed(run, "--precision", declared.precision, in_file.precision, _precision)
    precision = _said(precision, run, "--precision", "for example --precision FP8")
    ways, groups = _tensor_parallel(run, declared, stages), declared.attention_data_parallel or 1
    if ways % groups:
        problem = f"{groups} groups do not share the {ways} GPUs of {run.where} evenly"
        raise InvalidInput("--attention-data-parallel", problem, f"use {ways} or a divisor of it")
    return ConfigurationKey(model, gpu, precision, ways, stages, groups)


def _model(run: Run, declared: Declared) -> str:
    """The declared model, else the one of the file: servers give models any name, so a declaration wins."""
    if declared.model is not None:
        return resolve_model(declared.model, field="--model").name
    if run.declared.model is None:
        raise InvalidInput("--model", f"{run.where} does not say which model was measured", "add --model NAME")
    try:
        return resolve_model(run.declared.model).name
    except InvalidInput as error:
        problem = f"{run.where} names the model {run.declared.model!r}, which the catalog does not have"
        raise InvalidInput("--model", problem, "add --model NAME") from error


def _gpu(name: str, field: str) -> str:
    return resolve_gpu(name, field=field).name


def _precision(name: str, field: str) -> str:
    return resolve_precision(name, field=field)


def _tensor_parallel(run: Run, declared: Declared, pipeline_parallel: int) -> int:
    flag = "--tensor-parallel"
    if run.gpus_per_replica is None:
        agreed = _agreed(run, flag, declared.tensor_parallel, run.declared.tensor_parallel)
        return _said(agreed, run, flag, "the GPUs of one replica (1, 2, 4, 8)")
    tensor_parallel = declared.tensor_parallel or run.gpus_per_replica // pipeline_parallel
    if tensor_parallel * pipeline_parallel != run.gpus_per_replica:
        raise InvalidInput(
            flag,
            f"{tensor_parallel} x {pipeline_parallel} contradicts {run.where}, which has {run.gpus_per_replica} GPUs",
            f"leave {flag} out",
        )
    return tensor_parallel


def _agreed(
    run: Run,
    flag: str,
    declared: Declarable | None,
    in_file: Declarable | None,
    resolve: Callable[[Declarable, str], Declarable] = lambda value, _: value,
) -> Declarable | None:
    """The canonical form of what the user and the file agree on; an unknown name in the file contradicts no user."""
    if declared is None:
        return None if in_file is None else resolve(in_file, run.where)
    wanted = resolve(declared, flag)
    try:
        contradicts = in_file is not None and resolve(in_file, run.where) != wanted
    except InvalidInput:
        contradicts = False
    if contradicts:
        raise InvalidInput(flag, f"{wanted} contradicts {run.where}, which says {in_file}", f"leave {flag} out")
    return wanted


def _said(value: Declarable | None, run: Run, flag: str, example: str) -> Declarable:
    if value is None:
        raise InvalidInput(flag, f"{run.where} does not say it", f"add {flag}, {example}")
    return value


def _points(runs: Sequence[Run]) -> tuple[Point, ...]:
    by_load: dict[float, list[Point]] = defaultdict(list)
    for run in runs:
        offered = run.point.concurrency or run.point.offered_requests_per_second or run.point.requests_per_second
        by_load[offered].append(run.point)
    return tuple(_averaged(points) for _, points in sorted(by_load.items()))


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


def _name(profile: Profile) -> str:
    """A Kubernetes object name that tells two profiles apart as far as their content does."""
    key = profile.key
    parts = [key.model.rpartition("/")[2], key.gpu, key.precision, f"tp{key.tensor_parallel}"]
    if key.pipeline_parallel > 1:
        parts.append(f"pp{key.pipeline_parallel}")
    if key.attention_data_parallel > 1:
        parts.append(f"dp{key.attention_data_parallel}")
    parts.append(f"{profile.input_tokens:.0f}-{profile.output_tokens:.0f}")
    if profile.load is not Load.CLOSED_LOOP:
        parts.append(profile.load.value)
    parts += filter(None, (profile.engine, profile.engine_version))
    told = profile.settings
    for word, value in (
        ("batch", told.max_batch),
        ("step", told.tokens_per_step),
        ("kv", told.kv_cache_bits),
        ("memory", None if told.memory_share is None else round(100 * told.memory_share)),
    ):
        parts += [f"{word}{value}"] if value is not None else []
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
