"""Sizes resources on change only, away from the event loop, and remembers the answers.

A sizing takes from milliseconds to seconds; a decision reads its table in microseconds. What a sizing depends on is its
key: the spec's generation, the pinned configuration, the generations of its pool and of its model's profiles. A
resource that cannot be sized is an answer as well, with its reason, and never keeps another from being sized.

A pinned configuration is compared with what would be chosen today after that, one resource a tick: advice can wait.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from firsttoken_operator.act.status import Answer, read_status
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import canonical_model, sizing_request
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.domain import Reason, Sized, Unsized
from firsttoken_operator.observe.resources import Stored
from firsttoken_sizing.errors import InvalidInput, SizingError, UnknownGPU, UnknownModel
from firsttoken_sizing.optimize import size
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import SizingRequest

logger = logging.getLogger(__name__)

_REASONS: tuple[tuple[type[SizingError], Reason], ...] = (
    (UnknownModel, Reason.UNKNOWN_MODEL),
    (UnknownGPU, Reason.UNKNOWN_GPU),
    (InvalidInput, Reason.INVALID_SPEC),
)


@dataclass(frozen=True, slots=True)
class _Question:
    key: Hashable
    resource: InferenceDeployment
    pool: Stored[GPUPool] | None
    profiles: list[Stored[BenchmarkProfile]]


class Sizer:
    """Answers of all resources, kept until something that they depend on changes."""

    def __init__(self, budget_seconds: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        """`budget_seconds`: of one call; what is not sized by then is sized by the next ones, the rest decides on."""
        self._budget_seconds, self._clock = budget_seconds, clock
        self._answers: dict[str, tuple[Hashable, Answer]] = {}
        self._to_compare: dict[str, _Question] = {}

    async def answers(
        self,
        resources: Iterable[Stored[InferenceDeployment]],
        pools: Iterable[Stored[GPUPool]],
        profiles: Iterable[Stored[BenchmarkProfile]],
    ) -> Mapping[str, Answer]:
        """The answer of every resource, by uid; what changed is sized now, in a worker thread.

        A resource that has to wait for its turn keeps its earlier answer; one without any is not in the mapping.
        """
        began = self._clock()
        by_name = {pool.name: pool for pool in pools}
        usable = sorted((p for p in profiles if p.parsed is not None), key=lambda p: p.name)
        present: dict[str, Answer] = {}
        due: dict[str, _Question] = {}
        for stored in resources:
            if stored.parsed is None:
                present[stored.uid] = Answer(Unsized(Reason.INVALID_SPEC, stored.problem))
                continue
            status = read_status(InferenceDeploymentStatus, stored.status)
            resource = stored.parsed.model_copy(update={"status": status})
            relevant = [profile for profile in usable if _may_use(resource, profile)]
            pool = by_name.get(resource.spec.capacity.pool or "")
            versions = tuple((each.uid, each.generation) for each in relevant + ([pool] if pool else []))
            pin = resource.status.sizing.configuration if resource.status.sizing else None
            question = _Question((stored.generation, pin, pool is None, versions), resource, pool, relevant)
            known = self._answers.get(stored.uid)
            if known is not None and known[0] == question.key:
                present[stored.uid] = known[1]
            else:
                due[stored.uid] = question
        for uid, question in due.items():
            if self._clock() - began > self._budget_seconds:
                # A thousand sizings take minutes; a tick that waited for them would hold up every decision.
                if (known := self._answers.get(uid)) is not None:
                    present[uid] = known[1]
                continue
            # One after the other: a thousand at once would starve the decisions of everybody else.
            answer = await asyncio.to_thread(_answer, question)
            present[uid] = answer
            self._answers[uid] = (question.key, answer)
            self._to_compare[uid] = question
        for uid in self._answers.keys() - present.keys() - due.keys():
            del self._answers[uid]
            self._to_compare.pop(uid, None)
        await self._compare_one(present)
        return present

    async def _compare_one(self, present: dict[str, Answer]) -> None:
        uid = next(iter(self._to_compare), None)
        if uid is None:
            return
        question = self._to_compare.pop(uid)
        recommended = await asyncio.to_thread(_better, question, present[uid])
        present[uid] = replace(present[uid], recommended=recommended, compared=True)
        self._answers[uid] = (question.key, present[uid])


def _may_use(resource: InferenceDeployment, profile: Stored[BenchmarkProfile]) -> bool:
    """Whether a sizing of the resource reads the profile: one of its model, or one that it names."""
    if profile.parsed is None:
        return False
    same = canonical_model(profile.parsed.spec.model) == canonical_model(resource.spec.model.name)
    return same or profile.name in resource.spec.sizing.benchmarks


def _answer(question: _Question) -> Answer:
    resource = question.resource
    try:
        request = _request(question)
        sizing = size(request)
    except SizingError as error:
        reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.INVALID_SPEC)
        return Answer(Unsized(reason, str(error)))
    except Exception as error:
        # NB: one failing resource must not take the operator down; it is reported on the resource and in the log.
        logger.exception("sizing %s failed", resource.key)
        return Answer(Unsized(Reason.INVALID_SPEC, f"sizing failed: {type(error).__name__}"))
    if not sizing.feasible or sizing.table is None or sizing.configuration is None:
        reason = Reason(sizing.cause.value) if sizing.cause else Reason.INVALID_SPEC
        return Answer(Unsized(reason, sizing.reason), sizing, request.workload)
    sized = Sized(
        configuration=sizing.configuration,
        table=sizing.table,
        sla=request.sla,
        replicas_for_declared_peak=sizing.replicas,
        replicas_for_declared_average=sizing.replicas_for_average,
    )
    return Answer(sized, sizing, request.workload)


def _request(question: _Question) -> SizingRequest:
    parsed = question.pool.parsed if question.pool else None
    profiles = tuple(profile.parsed for profile in question.profiles if profile.parsed is not None)
    return sizing_request(question.resource, {parsed.metadata.name: parsed} if parsed else {}, profiles)


def _better(question: _Question, answer: Answer) -> ConfigurationKey | None:
    """What the sizing would choose if nothing were pinned, where it costs less or, without prices, takes fewer GPUs."""
    try:
        request = _request(question)
        if request.pinned is None:
            return None
        best, present = size(replace(request, pinned=None)), answer.sizing
    except Exception:
        logger.warning("comparing the configuration of %s failed", question.resource.key, exc_info=True)
        return None
    if not best.feasible or best.configuration == request.pinned:
        return None
    if present is None or not present.feasible:
        return best.configuration
    costs = [sizing.cost.per_hour if sizing.cost else None for sizing in (best, present)]
    wins = costs[0] < costs[1] if costs[0] is not None and costs[1] is not None else best.gpus < present.gpus
    return best.configuration if wins else None
