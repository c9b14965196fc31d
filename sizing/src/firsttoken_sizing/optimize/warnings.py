"""Warnings that a reader should know before buying the answer: one line each, which begins with its name."""

from __future__ import annotations

from collections.abc import Iterator

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, Model, resolve_precision
from firsttoken_sizing.catalog.interconnect import leaves_server
from firsttoken_sizing.engines.support import Support, nearest, support
from firsttoken_sizing.optimize.candidates import known_precisions
from firsttoken_sizing.optimize.evaluate import points_left_out
from firsttoken_sizing.optimize.evaluation import Evaluation
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.limits import tightest
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import Origin
from firsttoken_sizing.workload import Arrivals, SlaMode

_NVLINK_WANTED_ABOVE_TENSOR_PARALLEL = 2
_NVLINK_WANTED_ABOVE_BILLION = 13
_NEARLY_IDLE_PERCENT = 5
_SIXTEEN_BITS, _EIGHT_BITS = 2.0, 1.0


def warnings_of(question: Question, evaluation: Evaluation) -> tuple[str, ...]:
    """Every warning about this answer."""
    return tuple(text for kind in _KINDS for text in kind(question, evaluation))


def _interconnect(question: Question, evaluation: Evaluation) -> Iterator[str]:
    key, gpu = evaluation.key, question.gpus[evaluation.key.gpu]
    if gpu.has_server_wide_link:
        return
    if key.tensor_parallel > _NVLINK_WANTED_ABOVE_TENSOR_PARALLEL:
        yield (
            f"InterconnectWarning: tensorParallel {key.tensor_parallel} on {key.gpu}, which has no NVLink across"
            " the server; latency will be worse than sized, prefer an SXM system"
        )
    elif key.gpus_per_replica > 1 and question.model.parameters_billion > _NVLINK_WANTED_ABOVE_BILLION:
        yield (
            f"InterconnectWarning: a model of {question.model.parameters_billion:.0f} billion parameters over"
            f" {key.gpus_per_replica} PCIe GPUs; prefer an NVLink system"
        )


def _servers(question: Question, evaluation: Evaluation) -> Iterator[str]:
    key, per_server = evaluation.key, question.request.hardware.gpus_per_server
    gpu = question.gpus[key.gpu]
    if not leaves_server(gpu, key.gpus_per_replica, per_server):
        return
    servers = -(-key.gpus_per_replica // per_server)
    over_network = "tensor parallelism" if leaves_server(gpu, key.tensor_parallel, per_server) else "its pipeline"
    yield (
        f"MultiNode: a replica of {key.gpus_per_replica} GPUs takes {servers} servers of {per_server}, and"
        f" {over_network} crosses the network between them; it is ready only when all of its servers are, and fails"
        " with any of them"
    )


def _error(question: Question, evaluation: Evaluation) -> Iterator[str]:
    key, lengths, band = evaluation.key, question.lengths, evaluation.band
    if evaluation.by_physics and evaluation.from_points:
        yield (
            f"Extrapolated: {evaluation.source} lack a statistic that the SLA is about, and physics filled it in"
            f" ({band.text}); measure it before buying"
        )
    elif evaluation.by_physics:
        yield (
            f"Extrapolated: no measurement of {key.model} {key.precision} on {key.gpu} with tensorParallel"
            f" {key.tensor_parallel} and pipelineParallel {key.pipeline_parallel} ({evaluation.source};"
            f" {band.text}); measure it before buying"
        )
    elif evaluation.basis is Basis.EXTRAPOLATED:
        yield (
            f"Extrapolated: {lengths.input_tokens:g} input and {lengths.output_tokens:g} output"
            f" tokens are outside what was measured ({evaluation.source}; {band.text}); measure this"
            " workload before buying"
        )
    elif band.low < PARAMETERS.bands.wide_below:
        low, high = (share * evaluation.capacity for share in (band.low, band.high))
        yield f"WideErrorBand: one replica may carry {low:.3g} to {high:.3g} requests/s ({evaluation.source})"


def _tight(question: Question, evaluation: Evaluation) -> Iterator[str]:
    used = 100 * evaluation.capacity / evaluation.saturation_requests_per_second
    if used < _NEARLY_IDLE_PERCENT and tightest(evaluation.point, question.request.sla) is not None:
        yield (
            f"TightLimit: a replica is sized for {used:.2g} % of its throughput, because one request alone nearly uses"
            f" up {evaluation.binding}; a looser limit needs far fewer GPUs, and a small error of the model makes this"
            " one infeasible"
        )


def _precision(question: Question, evaluation: Evaluation) -> Iterator[str]:
    precision, gpu, engine = evaluation.key.precision, question.gpus[evaluation.key.gpu], question.request.engine
    found = support(engine, gpu, precision)
    if found is Support.EMULATED:
        yield (
            f"PrecisionEmulated: {engine.value} stores {precision} on {gpu.name} and computes in 16 bits, which saves"
            " memory and little time"
        )
    elif found is Support.NONE:
        yield (
            f"PrecisionNotSupported: by its documentation {engine.value} does not run {precision} on {gpu.name};"
            f" {nearest(engine, gpu, precision)}"
        )
    considered = {candidate.key.gpu for candidate in question.candidates}
    skipped = [name for name in question.gpus if name not in considered]
    if skipped:
        yield f"GPUNotConsidered: {engine.value} runs no format of {question.model.name} on {', '.join(skipped)}"


def _old(question: Question, evaluation: Evaluation) -> Iterator[str]:
    release = question.request.engine.spec.release(evaluation.bound.fitted.release)
    if evaluation.bound.fitted.origin is not Origin.PROFILES and not evaluation.from_points and release.is_old:
        yield (
            f"OldMeasurements: the step times are those of {question.request.engine.value} {release.about}; newer"
            " releases are faster at most loads. One AIPerf sweep of your engine, read by `firsttoken import`, replaces"
            " them"
        )


def _accuracy(question: Question, evaluation: Evaluation) -> Iterator[str]:
    precision = evaluation.key.precision
    if BYTES_PER_PARAMETER[precision] >= _widest_published(question.model):
        return
    cost = (
        "may cost up to about a point of MMLU"
        if BYTES_PER_PARAMETER[precision] >= _EIGHT_BITS
        else "may cost more accuracy than 8 bits do; measure it on your own task"
    )
    if question.request.precision is None:
        yield f"PrecisionChosen: {precision} {cost}; set model.precision to decide"
    else:
        yield f"PrecisionAccuracy: {precision} {cost}"


def _widest_published(model: Model) -> float:
    """Bytes a parameter of the widest format a model is published in, which loses nothing; 16 bits if none is known.

    Some models are published in 8 or 4 bits only, because they were trained so.
    """
    return max((BYTES_PER_PARAMETER[p] for p in model.published_precisions), default=_SIXTEEN_BITS)


def _not_published(question: Question, evaluation: Evaluation) -> Iterator[str]:
    """Formats that are allowed and not considered, because the model is neither published nor measured in them."""
    request, model = question.request, question.model
    if request.precision is not None or request.pinned is not None:
        return
    calibrated = question.knowledge.precisions(model, request.engine)
    known = known_precisions(request, model, question.profiles, calibrated)
    unknown = [p for p in dict.fromkeys(map(resolve_precision, request.allowed_precisions)) if p not in known]
    if unknown:
        yield (
            f"PrecisionNotPublished: {', '.join(unknown)} in model.allowedPrecisions not considered: {model.name} is"
            f" known in {', '.join(sorted(known))} only; set model.precision to size another format all the same"
        )


def _engine(question: Question, evaluation: Evaluation) -> Iterator[str]:
    others = sorted({p.name for p in question.of_other_engines})
    if others:
        yield (
            f"OtherEngine: {', '.join(others)} not used, because another engine made it and"
            f" {question.request.engine.value} is assumed; set sizing.engine to use it"
        )


def _settings(question: Question, evaluation: Evaluation) -> Iterator[str]:
    if left_out := points_left_out(question):
        yield (
            f"OtherSettings: {left_out} measured points not used, because they were measured with other settings of"
            " the engine than sizing.engineSettings; a benchmark that does not say its engineSettings is taken to be of"
            " the engine as it is installed"
        )


def _arrivals(question: Question, evaluation: Evaluation) -> Iterator[str]:
    workload = question.request.workload
    if question.arrivals is Arrivals.POISSON and workload.concurrent_requests is not None:
        yield "ConcurrentRequests: declared concurrency is converted to a rate by Little's law for Poisson arrivals"
    if question.request.sla.mode is SlaMode.OFFLINE and workload.offline is None:
        yield (
            "OfflineWithoutJob: sized for a rate with full batches and no limit on latency; declare traffic.offline"
            " (requests, deadlineHours) for the time that a job takes"
        )


_KINDS = (
    _interconnect,
    _servers,
    _error,
    _old,
    _tight,
    _precision,
    _accuracy,
    _not_published,
    _engine,
    _settings,
    _arrivals,
)
