"""Subject of a simulation: the replicas of a sizing, with the step model, packing rule and memory that it assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_sizing.engines import Engine
from firsttoken_sizing.optimize.evaluate import bound_of
from firsttoken_sizing.optimize.evaluation import Candidate, InfeasibleCandidate
from firsttoken_sizing.optimize.prefix_hits import with_hits
from firsttoken_sizing.optimize.question import check
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Batching


@dataclass(frozen=True, slots=True)
class Subject:
    """A configuration with all that its simulation takes; `settings` are of one replica."""

    key: ConfigurationKey
    engine: Engine
    lengths: Lengths
    step: StepModel
    settings: Settings
    source: str
    """Source of the step model."""


def subject_of(request: SizingRequest, key: ConfigurationKey, batching: Batching | None = None) -> Subject | str:
    """The configuration `key` under the request's workload, or the reason why it does not fit into memory.

    `batching` None is what the engine does as it is installed. The KV cache is that of the memory formula, or what was
    measured running at once where that is more. Raises `InvalidInput` as `size` does.
    """
    question = check(request)
    batching = batching or request.engine.spec.batching
    bound = bound_of(question, Candidate(key, batching))
    if isinstance(bound, InfeasibleCandidate):
        return f"{bound.cause.value}: {bound.sentence}"
    hits = with_hits(question, bound)
    assert hits is not None
    bound, lengths = hits.bound, hits.question.lengths
    memory = bound.memory
    tokens = math.ceil(lengths.input_tokens + lengths.output_tokens)
    return Subject(
        key=key,
        engine=request.engine,
        lengths=lengths,
        step=bound.step,
        settings=Settings(
            batching=batching,
            scheduler=bound.scheduler,
            routing=request.workload.routing,
            kv_cache_tokens=max(memory.kv_cache_tokens, (memory.measured_concurrency or 0) * tokens),
            kv_admission=request.engine.spec.kv_admission,
        ),
        source=bound.fitted.source,
    )
