"""What the answer says beside the numbers: warnings, assumed engine settings, and why each alternative lost."""

from __future__ import annotations

from collections.abc import Iterator

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER
from firsttoken_sizing.catalog.memory import USABLE_FRACTION
from firsttoken_sizing.optimize.evaluate import Evaluation, Refusal
from firsttoken_sizing.optimize.plan import Plan, saving_in_doubt
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Alternative, Basis
from firsttoken_sizing.step.scheduler import PREFILL_TOKENS_PER_STEP
from firsttoken_sizing.workload import Arrivals

_NVLINK_WANTED_ABOVE_TENSOR_PARALLEL = 2
_NVLINK_WANTED_ABOVE_BILLION = 13
_WIDE_BAND_PERCENT = 20
_SIXTEEN_BITS = 2.0


def warnings(question: Question, evaluation: Evaluation) -> tuple[str, ...]:
    """Everything that a reader should know before buying this size."""
    return tuple(_warnings(question, evaluation))


def engine_settings(question: Question, evaluation: Evaluation) -> dict[str, str | int | float]:
    """The engine settings that the answer assumes."""
    settings: dict[str, str | int | float] = {
        "batching": "inflight",
        "maxNumTokens": PREFILL_TOKENS_PER_STEP,
        "chunkedContext": "off",
        "kvCacheFreeGpuMemFraction": USABLE_FRACTION,
        "prefixCaching": "on" if question.request.workload.cached_input_percent else "off",
    }
    if evaluation.step is not None:
        settings["maxBatchSize"] = evaluation.step.max_batch
    return settings


def alternatives(
    plans: list[Plan], refusals: list[Refusal], unknown: list[ConfigurationKey]
) -> tuple[Alternative, ...]:
    """Every other configuration with the reason it lost. `plans` are in order of preference, the best first."""
    return (
        *(Alternative(p.evaluation.key, True, p.gpus, _why_lost(p, plans)) for p in plans[1:]),
        *refused(refusals),
        *(Alternative(key, False, None, "no measured points and no shipped fit") for key in unknown),
    )


def refused(refusals: list[Refusal]) -> tuple[Alternative, ...]:
    """Configurations that cannot serve the workload, with the reason."""
    return tuple(Alternative(r.key, False, None, f"{r.cause.value}: {r.sentence}") for r in refusals)


def _why_lost(plan: Plan, plans: list[Plan]) -> str:
    best, evaluation = plans[0], plan.evaluation
    if plan.cost_per_year is not None and best.cost_per_year is not None and plan.cost_per_year > best.cost_per_year:
        more = 100 * (plan.cost_per_year / best.cost_per_year - 1)
        return f"costs {more:.0f} % more ({plan.gpus} GPUs against {best.gpus})"
    if plan.gpus > best.gpus:
        return f"needs {plan.gpus} GPUs against {best.gpus}"
    if (saving := saving_in_doubt(plan, plans)) is not None:
        return (
            f"{plan.gpus} GPUs against {best.gpus}, but {evaluation.basis.value} (± {evaluation.error_band_percent:.0f}"
            f" %), and a saving of {max(0.0, saving):.0f} % a request is inside that error; measure it to decide"
        )
    if best.evaluation.basis is Basis.MEASURED and evaluation.basis is not Basis.MEASURED:
        return f"as good, but {evaluation.basis.value} where the answer is measured"
    return "as good, but later in the order of preference"


def _warnings(question: Question, evaluation: Evaluation) -> Iterator[str]:
    key, gpu = evaluation.key, question.gpus[evaluation.key.gpu]
    if not gpu.has_server_wide_link:
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
    if evaluation.basis is Basis.EXTRAPOLATED:
        yield (
            f"Extrapolated: {question.lengths.input_tokens:g} input and {question.lengths.output_tokens:g} output"
            f" tokens are outside what was measured ({evaluation.source}); measure this workload before buying"
        )
    elif evaluation.error_band_percent > _WIDE_BAND_PERCENT:
        yield (
            f"WideErrorBand: the requests a second of one replica may be off by {evaluation.error_band_percent:.0f} %"
            f" ({evaluation.source})"
        )
    if question.request.precision is None and BYTES_PER_PARAMETER[key.precision] < _SIXTEEN_BITS:
        yield f"PrecisionChosen: {key.precision} may cost up to about a point of MMLU; set model.precision to decide"
    if question.arrivals is Arrivals.POISSON and question.request.workload.concurrent_requests is not None:
        yield "ConcurrentRequests: declared concurrency is converted to a rate by Little's law for the Poisson reading"
