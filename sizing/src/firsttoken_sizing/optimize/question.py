"""The question with every name resolved and every number checked: what the search may take for granted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from firsttoken_sizing.catalog import Gpu, Model, resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput, UnknownGPU, UnknownModel
from firsttoken_sizing.optimize.candidates import candidates
from firsttoken_sizing.optimize.checks import check_fields
from firsttoken_sizing.optimize.engine import batchings_of, check_whole_prompts
from firsttoken_sizing.optimize.evaluation import Candidate
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.step import Knowledge, shipped
from firsttoken_sizing.step.select import is_of_engine
from firsttoken_sizing.workload import Arrivals, DraftMethod, SlaMode, Workload


@dataclass(frozen=True, slots=True)
class Question:
    """A checked request. `candidates` are in the order of preference on a tie; `profiles` have canonical keys."""

    request: SizingRequest
    model: Model
    gpus: dict[str, Gpu]
    candidates: tuple[Candidate, ...]
    profiles: tuple[Profile, ...]
    """Those of the assumed engine."""
    of_other_engines: tuple[Profile, ...]
    """Profiles of this model that are not used because another engine made them."""
    lengths: Lengths
    knowledge: Knowledge
    engine_release: str | None
    """Name of the release of the engine that is asked for; None: the newest that was measured."""

    @property
    def arrivals(self) -> Arrivals:
        """Arrivals that the load is taken for: an offline job keeps the batch full, whatever is declared."""
        offline = self.request.sla.mode is SlaMode.OFFLINE
        return Arrivals.CLOSED_LOOP if offline else self.request.arrivals

    @property
    def longest(self) -> tuple[float, float]:
        """Input and output tokens of the longest requests that were declared: the P99s, where they are."""
        return longest_of(self.request.workload)


def longest_of(workload: Workload) -> tuple[float, float]:
    """Input and output tokens of the longest declared requests."""
    return (
        max(workload.input_tokens, workload.input_tokens_p99 or 0.0),
        max(workload.output_tokens, workload.output_tokens_p99 or 0.0),
    )


def check(request: SizingRequest, knowledge: Knowledge | None = None) -> Question:
    """Resolve and check a request, to be answered by `knowledge` (None: what is shipped).

    Raises `InvalidInput` (or its kinds) that names the field and the fix.
    """
    check_fields(request)
    model = request.architecture or resolve_model(request.model)
    _check_drafts(request, model)
    gpus = [resolve_gpu(name) for name in request.hardware.gpus]
    every = tuple(replace(p, key=_canonical_key(p.key, request, model)) for p in request.profiles)
    profiles = tuple(p for p in every if is_of_engine(p, request.engine))
    pinned = _canonical_key(request.pinned, request, model) if request.pinned else None
    if pinned and pinned.gpu not in {g.name for g in gpus}:
        gpus.append(resolve_gpu(pinned.gpu))
    batchings = batchings_of(request.engine, request.batchings)
    check_whole_prompts(request.engine, batchings, request.declared_settings, longest_of(request.workload)[0])
    knowledge = knowledge or shipped()
    offered = (
        (Candidate(pinned, batching) for batching in batchings)
        if pinned
        else candidates(request, model, gpus, profiles, batchings, knowledge.precisions(model, request.engine))
    )
    return Question(
        request=request,
        model=model,
        gpus={g.name: g for g in gpus},
        candidates=tuple(dict.fromkeys(offered)),
        profiles=profiles,
        of_other_engines=tuple(p for p in every if p.key.model == model.name and not is_of_engine(p, request.engine)),
        lengths=lengths_of(request.workload),
        knowledge=knowledge,
        engine_release=_release(request),
    )


def _check_drafts(request: SizingRequest, model: Model) -> None:
    """Refuse multi-token prediction by a model that has no layers for it."""
    drafts = request.speculative_decoding
    if drafts is not None and drafts.method is DraftMethod.MTP and not model.prediction_layers:
        problem = f"{model.name} has no layers that predict further tokens"
        raise InvalidInput("sizing.speculativeDecoding.method", problem, f"use {DraftMethod.N_GRAM.value}")


def _release(request: SizingRequest) -> str | None:
    """Name of the declared release. Raises `InvalidInput` for one that was never calibrated."""
    if request.engine_release is None:
        return None
    known = {release.label: release.name for release in request.engine.spec.releases}
    if request.engine_release not in known:
        raise InvalidInput(
            "sizing.engineRelease",
            f"{request.engine.value} {request.engine_release!r} was not calibrated",
            f"use {' or '.join(known)}, or remove it",
        )
    return known[request.engine_release]


def _canonical_key(key: ConfigurationKey, request: SizingRequest, model: Model) -> ConfigurationKey:
    """Canonical names; a name that the catalog does not know stays as it is and so matches nothing.

    NB: a model outside the catalog is called what the request calls it, and so is every other name of its architecture.
    """
    name, gpu = key.model, key.gpu
    with suppress(UnknownModel):
        named = model if key.model == request.model else resolve_model(key.model)
        name = (model if named.architecture == model.architecture else named).name
    with suppress(UnknownGPU):
        gpu = resolve_gpu(key.gpu).name
    return replace(key, model=name, gpu=gpu, precision=resolve_precision(key.precision))
