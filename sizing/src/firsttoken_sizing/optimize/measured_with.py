"""Settings of the engine that a benchmark was measured with, held against those that a question is about.

A profile that says nothing was measured with the engine as it is installed, and so is all that is shipped. Times of a
step depend on the format of the KV cache; latencies on the budget of a step, too. Another batch limit leaves the points
below it what they are, and so does another share of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.optimize.evaluation import Candidate
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance import measured
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile
from firsttoken_sizing.step import FittedStep, Origin, speed_key
from firsttoken_sizing.workload import Arrivals


def is_alike(question: Question, precision: str, settings: DeclaredSettings) -> bool:
    """Tell whether latencies with these settings are those of the question, up to the smaller batch limit."""
    installed = question.request.engine.spec.release().scheduler.tokens_per_step
    budget = question.request.declared_settings.tokens_per_step or installed
    return (settings.tokens_per_step or installed) == budget and _has_cache(question, precision, settings)


def holding(question: Question, candidate: Candidate, most: float) -> tuple[Profile, ...]:
    """Profiles, with those of their points that hold with the settings of the question, with `most` at once."""
    return tuple(
        replace(p, points=tuple(q for q in p.points if _concurrency(p, q) <= _limit(question, p.settings, most)))
        for p in question.profiles
        if is_alike(question, candidate.key.precision, p.settings)
    )


def with_its_memory(question: Question, precision: str) -> tuple[Profile, ...]:
    """Profiles of a replica whose KV cache holds as many tokens as the question's."""
    share = question.request.declared_settings.memory_share
    return tuple(
        p for p in question.profiles if p.settings.memory_share == share and _has_cache(question, precision, p.settings)
    )


def telling_steps(question: Question, key: ConfigurationKey) -> tuple[Profile, ...]:
    """Profiles that the times of a step are fitted to: those with its KV cache, else all that there are."""
    alike = tuple(p for p in question.profiles if _has_cache(question, p.key.precision, p.settings))
    return alike if any(speed_key(p.key) == speed_key(key) for p in alike) else question.profiles


def is_cache_known(question: Question, key: ConfigurationKey, fitted: FittedStep) -> bool:
    """Tell whether a fit is of steps with the KV cache of the question."""
    if fitted.origin is not Origin.PROFILES:
        return _has_cache(question, key.precision, AS_INSTALLED)
    fitted_to = (p for p in telling_steps(question, key) if speed_key(p.key) == speed_key(key))
    return all(_has_cache(question, key.precision, p.settings) for p in fitted_to)


def left_out(question: Question, candidate: Candidate, most: float) -> Iterator[tuple[DeclaredSettings, Point]]:
    """Points at the lengths of the question that do not hold with its settings, with those that they have."""
    held = holding(question, candidate, most)
    for settings in {p.settings for p in question.profiles}:
        every = matching(question, candidate.key, (p for p in question.profiles if p.settings == settings))
        kept = set(matching(question, candidate.key, (p for p in held if p.settings == settings)))
        yield from ((settings, point) for point in every if point not in kept)


def matching(question: Question, key: ConfigurationKey, profiles: Iterable[Profile]) -> tuple[Point, ...]:
    """Points of the configuration, load and lengths of the question."""
    load = Load.CLOSED_LOOP if question.arrivals is Arrivals.CLOSED_LOOP else Load.POISSON
    lengths = question.lengths
    return measured.matching_points(profiles, key, load, lengths.input_tokens, lengths.output_tokens)


def _has_cache(question: Question, precision: str, settings: DeclaredSettings) -> bool:
    installed = question.request.engine.spec.kv_cache_bits(question.model, precision)
    return (settings.kv_cache_bits or installed) == (question.request.declared_settings.kv_cache_bits or installed)


def _limit(question: Question, settings: DeclaredSettings, most: float) -> float:
    """Concurrency up to which points with these settings hold: that of both batch limits where they differ."""
    if settings == question.request.declared_settings:
        return math.inf
    return min(settings.max_batch or math.inf, most)


def _concurrency(profile: Profile, point: Point) -> float:
    return point.completed(profile.output_tokens).concurrency or 0.0
