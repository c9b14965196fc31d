"""Capacity inside the SLA: what `size` says of one replica, against measured curves that it has not seen.

Every question is answered by `size` itself, with knowledge from which the workload, the configuration, the model or
the GPU asked about was left out, or with profiles of the user's own. The error is that of the requests a second of one
replica; an answer is broken where the latency measured at its concurrency is more than 5 % over the limit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from evaluation import without
from evaluation.curves import Asked, MeasuredCurve, nim_curves, questions, silicon_curves
from evaluation.row import Figure, Row, absolute_errors
from firsttoken_sizing import Arrivals, Hardware, SizingRequest, Workload
from firsttoken_sizing.optimize.evaluation import Evaluation
from firsttoken_sizing.optimize.question import Question, check
from firsttoken_sizing.optimize.search import search
from firsttoken_sizing.profile import Profile
from firsttoken_sizing.step import Knowledge


@dataclass(frozen=True, slots=True)
class SizedAnswer:
    """One answer. `evaluation` is None where `size` says that nothing keeps the limit."""

    known: str
    """Name of what was left out, or given."""
    asked: Asked
    question: Question
    evaluation: Evaluation | None

    @property
    def ratio(self) -> float:
        """Measured over predicted requests a second; infinity for a refusal."""
        if self.evaluation is None:
            return math.inf
        return self.asked.truth.requests_per_second / self.evaluation.capacity

    @property
    def error_percent(self) -> float:
        """Error of the capacity in percent of the measured one; 100 for a refusal."""
        return 100 * abs(1 / self.ratio - 1)

    @property
    def is_covered(self) -> bool:
        """Tell whether the measured capacity lies inside the band."""
        return self.evaluation is not None and self.evaluation.band.low <= self.ratio <= self.evaluation.band.high

    @property
    def is_broken(self) -> bool:
        """Tell whether the latency measured at the concurrency of the answer is more than 5 % over the limit."""
        return self.evaluation is not None and self.asked.is_broken(self.evaluation.point.concurrency or 1.0)


def answered(asked: Asked, known: str, knowledge: Knowledge, profiles: tuple[Profile, ...] = ()) -> SizedAnswer:
    """The answer of `size` for the configuration of the curve."""
    curve = asked.curve
    request = SizingRequest(
        model=curve.key.model,
        workload=Workload(curve.input_tokens, curve.output_tokens, peak_requests_per_second=1.0),
        sla=asked.sla,
        hardware=Hardware(gpus=(curve.key.gpu,)),
        arrivals=Arrivals.CLOSED_LOOP,
        profiles=profiles,
        engine=curve.engine,
        engine_release=None if profiles else curve.engine.spec.release(curve.release).label,
        pinned=curve.key,
    )
    question = check(request, knowledge)
    plans = search(question).plans
    return SizedAnswer(known, asked, question, plans[0].evaluation if plans else None)


Leave = Callable[[Path, MeasuredCurve], Knowledge | None]
LEFT_OUT: dict[str, Leave] = {
    "workload": without.without_workload,
    "configuration": without.without_configuration,
    "model": without.without_model,
    "GPU": without.without_gpu,
    "model and GPU": without.without_both,
    "release of the engine": lambda _, curve: without.without_release(curve),
}
GIVEN = "given: other workloads of one's own"
_GOALS = {("NIM", "workload"): (6.0, 8.0), ("NIM", "configuration"): (8.0, 10.0), ("recent", "workload"): (15.0, 20.0)}
"""Median and mean error, in percent."""
_BROKEN_GOAL = 5.0
_COVERAGE_GOALS = (88.0, 93.0)


def rows(data: Path) -> list[Row]:
    """A row for what is known and each engine; goals where the specification has them, for all recent engines."""
    found: dict[tuple[str, str], list[SizedAnswer]] = defaultdict(list)
    for answer in (*nim_answers(data), *silicon_answers(data)):
        curve = answer.asked.curve
        engine = f"{curve.engine.value} of 2025" if curve.collected else "NIM"
        found[engine, answer.known].append(answer)
        if curve.collected:
            found["recent", answer.known].append(answer)
    return [_row(engine, known, answers) for (engine, known), answers in sorted(found.items())]


@cache
def nim_answers(data: Path) -> tuple[SizedAnswer, ...]:
    """Answers about nim_dli.csv."""
    return tuple(answer for curve in nim_curves(data) for answer in _about_nim(data, curve))


@cache
def silicon_answers(data: Path) -> tuple[SizedAnswer, ...]:
    """Answers about aic_silicon_agg.csv: what knows the model and the GPU of every curve, the rest of every fourth."""
    found: list[SizedAnswer] = []
    for place, curve in enumerate(silicon_curves(data)):
        names = list(LEFT_OUT) if place % 4 == 0 else ["workload", "configuration"]
        found += of_curve(data, curve, names)
    return tuple(found)


def of_curve(data: Path, curve: MeasuredCurve, names: Iterable[str]) -> Iterator[SizedAnswer]:
    """Answers to every question about a curve, by knowledge without each of these."""
    for name in names:
        knowledge = LEFT_OUT[name](data, curve)
        if knowledge is not None:
            for asked in questions(curve):
                yield answered(asked, name, knowledge)


def _about_nim(data: Path, curve: MeasuredCurve) -> Iterator[SizedAnswer]:
    yield from of_curve(data, curve, ("workload", "configuration", "release of the engine"))
    own, knowledge = tuple(without.profiles_of(data, curve)), without.without_configuration(data, curve)
    for asked in questions(curve):
        yield answered(asked, GIVEN, knowledge, own)


def _row(engine: str, known: str, answers: Sequence[SizedAnswer]) -> Row:
    median, mean = _GOALS.get((engine, known), (None, None))
    is_judged = median is not None
    sized = [a for a in answers if a.evaluation is not None]
    widths = [100 * (a.evaluation.band.high - a.evaluation.band.low) / 2 for a in sized if a.evaluation is not None]
    covered = 100 * float(np.mean([a.is_covered for a in sized]))
    refused = 100 * (1 - len(sized) / len(answers))
    low, high = _COVERAGE_GOALS
    return Row(
        what=f"capacity inside the SLA, {engine}",
        left_out=known if known == GIVEN else f"the {known}",
        points=len(answers),
        figures=(
            *absolute_errors((a.error_percent for a in answers), median=median, mean=mean),
            Figure("median half-width of the band", float(np.median(widths))),
            Figure("coverage", covered, low if is_judged else None, at_least=True),
            Figure("coverage, at most", covered, high if is_judged else None),
            Figure("refused, which has no band", refused),
            Figure("broken", 100 * float(np.mean([a.is_broken for a in answers])), _BROKEN_GOAL if is_judged else None),
        ),
    )
