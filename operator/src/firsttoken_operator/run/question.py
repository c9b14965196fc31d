"""One sizing question of one resource, known by its content, and the answer that the sizing model gives to it.

Two resources that ask the same have the same content, and so has the one that pins what an unpinned one was answered:
it is sized once.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import firsttoken_sizing
from firsttoken_operator.act.status import Answer, sizing_status
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import canonical_model, sizing_request
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.decide import recommended
from firsttoken_operator.domain import Reason, Sized, Unsized
from firsttoken_operator.observe.resources import Stored
from firsttoken_operator.observe.tenancy import Tenancy
from firsttoken_operator.runtimes.settings import SizedSettings
from firsttoken_operator.runtimes.sized import sized_settings
from firsttoken_sizing.catalog import resolve_model
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
class Question:
    """Question of one resource. `basis`: what it was made from; where that is the same, so is the question."""

    namespace: str
    name: str
    uid: str
    generation: int
    basis: Hashable
    content: str
    request: SizingRequest | None
    refusal: Answer | None = None
    """The answer to what cannot be asked; there is no `request` then."""


class QuestionSources:
    """The pools and profiles that questions are made from."""

    def __init__(
        self,
        pools: Iterable[Stored[GPUPool]],
        profiles: Iterable[Stored[BenchmarkProfile]],
        tenancy: Tenancy,
    ) -> None:
        self._tenancy = tenancy
        self._pools = {pool.name: pool for pool in pools}
        self._profiles = {p.name: p for p in sorted(profiles, key=lambda p: p.name) if p.parsed is not None}
        self._of_model: dict[str, list[str]] = {}
        self._requests: dict[str, SizingRequest] = {}
        """Requests that were made from these sources, by content."""
        for name, stored in self._profiles.items():
            if stored.parsed is not None:
                self._of_model.setdefault(canonical_model(stored.parsed.spec.model), []).append(name)

    def question(
        self, stored: Stored[InferenceDeployment], resource: InferenceDeployment, before: Question | None
    ) -> Question:
        """The question that a resource asks now; the one `before` where nothing has changed for it."""
        resource = self._tenancy.placed(resource)
        spec, pinned = resource.spec, resource.status.sizing
        pool = self._pools.get(spec.capacity.pool or "")
        # It reads the profiles of its model, and those that it names.
        names = {*self._of_model.get(canonical_model(spec.model.name), ()), *spec.sizing.benchmarks}
        profiles = [self._profiles[name] for name in sorted(names) if name in self._profiles]
        versions = [(profile.uid, profile.generation) for profile in profiles]
        versions += [(pool.uid, pool.generation)] if pool else []
        basis = (stored.generation, pinned.configuration if pinned else None, tuple(versions))
        if before is not None and before.basis == basis:
            return before
        request, refusal, content = None, None, ""
        try:
            known = {pool.name: pool.parsed} if pool is not None and pool.parsed is not None else {}
            request = sizing_request(resource, known, [p.parsed for p in profiles if p.parsed is not None])
            content = content_of(request)
            # NB: with its profile a request is a few kilobytes, and of a thousand resources many ask the same.
            request = self._requests.setdefault(content, request)
        except Exception as error:
            refusal = _refused(error, resource.key)
        return Question(
            stored.namespace, resource.key, stored.uid, stored.generation, basis, content, request, refusal
        )  # fmt: skip


def content_of(request: SizingRequest) -> str:
    """Name of a question: the same for all that ask the same of the same version."""
    # NB: a request is made of frozen dataclasses, numbers, texts and enumerations, whose forms say all that they are.
    return hashlib.sha256(f"{fingerprint()} {request!r}".encode()).hexdigest()


@cache
def fingerprint() -> str:
    """Hash of what an answer depends on beside its question: the version, and every file of sizing and catalog."""
    digest, folder = hashlib.sha256(version("firsttoken").encode()), Path(firsttoken_sizing.__file__).parent
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(folder)} {file.stat().st_size} ".encode() + file.read_bytes())
    return digest.hexdigest()


def answers(request: SizingRequest, name: str) -> Mapping[str, Answer]:
    """The answer to a question, by content: its own, and that of who pins what was chosen. Takes up to seconds."""
    answer = _answer(request, name)
    found = {content_of(request): answer}
    if request.pinned is None and isinstance(answer.sized, Sized):
        # NB: a configuration has the same table whether others are considered beside it or not (by test).
        found[content_of(replace(request, pinned=answer.sized.configuration))] = answer
    return found


def _answer(request: SizingRequest, name: str) -> Answer:
    try:
        sizing = size(_for_every_load(request), pools_apart=False)
        settings = None if sizing.configuration is None else _settings(request, sizing.configuration)
    except Exception as error:
        return _refused(error, name)
    # Without a pin the best was chosen: there is nothing to compare it with.
    compared = request.pinned is None
    if not sizing.feasible or sizing.table is None or sizing.configuration is None:
        reason = Reason(sizing.cause.value) if sizing.cause else Reason.INVALID_SPEC
        return Answer(Unsized(reason, sizing.reason), None, request.workload, compared=compared)
    sized = Sized(
        configuration=sizing.configuration,
        table=sizing.table,
        sla=request.sla,
        replicas_for_declared_peak=sizing.replicas,
        replicas_for_declared_average=sizing.replicas_for_average,
        most_replicas_for_declared_peak=sizing.careful_replicas,
        careful_share=sizing.careful_share,
        peak_requests_per_second=sizing.peak_requests_per_second,
        settings=settings,
    )
    cost_per_hour = sizing.cost.per_hour if sizing.cost else None
    return Answer(sized, sizing_status(sizing), request.workload, cost_per_hour, compared=compared)


def _for_every_load(request: SizingRequest) -> SizingRequest:
    """The question for a size that is scaled down by: it holds for one replica too."""
    return replace(request, fewest_replicas=1)


def _settings(request: SizingRequest, key: ConfigurationKey) -> SizedSettings:
    return sized_settings(
        request.architecture or resolve_model(request.model),
        key,
        request.engine,
        next(iter(request.batchings), None),
        load=request.workload,
        declared=request.declared_settings,
        drafts=request.speculative_decoding,
        offline=request.has_offline_batch,
    )


def _refused(error: Exception, name: str) -> Answer:
    if isinstance(error, SizingError):
        reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.INVALID_SPEC)
        return Answer(Unsized(reason, str(error)), compared=True)
    # NB: one failing resource must not take the operator down; it is reported on the resource and in the log.
    logger.error("sizing %s failed", name, exc_info=error)
    return Answer(Unsized(Reason.INVALID_SPEC, f"sizing failed: {type(error).__name__}"), compared=True)


def better(request: SizingRequest, answer: Answer) -> ConfigurationKey | None:
    """Find what is recommended in place of the pinned configuration. Sizes anew without the pin, in seconds."""
    try:
        best = size(_for_every_load(replace(request, pinned=None)), pools_apart=False)
    except Exception:
        logger.warning("comparing the configuration of %s failed", request.model, exc_info=True)
        return None
    return recommended(best, request.pinned, answer.shown.gpus if answer.shown else None, answer.cost_per_hour)
