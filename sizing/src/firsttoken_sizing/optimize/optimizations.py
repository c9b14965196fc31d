"""Declared optimizations that were not measured with this configuration: what they do to its step times and its memory.

Sparse weights, speculative decoding, and chunked prefill on an engine that is installed without it. The effects are
published ones (`step.modifiers`), so an answer with one is `Extrapolated` however well the plain one is known; measure
the optimized engine, and leave the field out, to have one that stands on points.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.optimize.evaluation import Candidate
from firsttoken_sizing.optimize.measured_with import is_cache_known
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.step import FittedStep, Origin
from firsttoken_sizing.step.modifiers import (
    chunked_prefill,
    prediction_layers,
    sparse_2_4,
    sparse_bytes_share,
    speculative,
    transferred,
)
from firsttoken_sizing.step.prior import work_of
from firsttoken_sizing.workload import Batching, DraftMethod, Sparsity


def is_plain(question: Question, candidate: Candidate) -> bool:
    """Tell whether a candidate is what benchmarks are of: the plain model, batched as the engine does it by itself."""
    request = question.request
    plain = request.sparsity is None and request.speculative_decoding is None
    return plain and candidate.batching is request.engine.spec.batching


def weight_share(question: Question, precision: str) -> float:
    """Bytes of the weights over those of the dense model without layers that predict further tokens."""
    request = question.request
    kept = sparse_bytes_share(precision) if request.sparsity is Sparsity.TWO_OF_FOUR else 1.0
    drafts = request.speculative_decoding
    return kept * (1 + (prediction_share(question) if drafts and drafts.method is DraftMethod.MTP else 0.0))


def prediction_share(question: Question) -> float:
    """Layers that predict further tokens over those of the model."""
    return question.model.prediction_layers / question.model.layers


def optimized(question: Question, candidate: Candidate, fitted: FittedStep, scheduler: Scheduler) -> FittedStep:
    """The step model of a candidate with everything that was declared; the same one where nothing was."""
    request, key, step = question.request, candidate.key, fitted.model
    effects: list[str] = []
    if request.sparsity is Sparsity.TWO_OF_FOUR:
        gpu = question.gpus[key.gpu]
        work = work_of(question.model, gpu, key, prompt_tokens=question.lengths.input_tokens)
        constants = question.knowledge.constants(
            request.engine, gpu, key.precision, model=question.model, release=fitted.release
        )
        sparse = transferred(step, work.step(constants), sparse_2_4(work, key.precision).step(constants))
        step = replace(sparse, max_batch=step.max_batch)
        effects.append("2:4 sparsity")
    if (drafts := request.speculative_decoding) is not None:
        by_layers = drafts.method is DraftMethod.MTP
        draft = prediction_layers(step, prediction_share(question)) if by_layers else None
        acceptance = drafts.acceptance_percent / 100
        step = speculative(step, acceptance=acceptance, draft_tokens=drafts.draft_tokens, draft=draft)
        effects.append("multi-token prediction" if by_layers else "speculative decoding")
    if candidate.batching is Batching.CHUNKED_PREFILL is not request.engine.spec.batching:
        step = chunked_prefill(step, scheduler.tokens_per_step)
        effects.append("chunked prefill")
    # NB: the keys and values are read no faster for it: converting them takes time that was not measured.
    if not is_cache_known(question, key, fitted):
        effects.append("another format of the KV cache")
    if not effects:
        return fitted
    source = f"{fitted.source}, with the published effect of {' and '.join(effects)}"
    return replace(fitted, model=step, origin=Origin.PRIOR, source=source, without_one=tuple)
