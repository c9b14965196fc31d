from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import (
    Arrivals,
    Basis,
    ConfigurationKey,
    Hardware,
    Limit,
    Percentile,
    Pricing,
    Sla,
    SlaMode,
    UnknownGPU,
    UnknownModel,
    Workload,
    size,
)
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.workload import Batching, OfflineJob
from tests.fixtures.worked_examples import H100, LLAMA_8B, call_center, call_center_profile

LLAMA_70B = "meta/llama3-70b-instruct"
A100 = "A100-SXM-80GB"
TTFT = Limit(300, Percentile.P95)
JOB = OfflineJob(1000, 8)
NAN_PROFILE = call_center_profile({10: float("nan")})


def test_the_winner_needs_no_more_gpus_than_any_alternative() -> None:
    sizing = size(replace(call_center(), pricing={}, profiles=(), batchings=tuple(Batching)))

    feasible = [a for a in sizing.alternatives if a.feasible]
    assert len(feasible) == 4 * 3 - 1
    assert all(a.gpus is None or a.gpus >= sizing.gpus for a in feasible)
    assert all(a.reason for a in sizing.alternatives)


@pytest.mark.slow
def test_price_decides_where_every_gpu_has_one() -> None:
    request = replace(
        call_center(arrivals=Arrivals.POISSON), precision="FP16", hardware=Hardware(gpus=(H100, A100)), profiles=()
    )

    by_gpus = size(replace(request, pricing={}))
    by_cost = size(replace(request, pricing={H100: Pricing(gpu_hour=10), A100: Pricing(gpu_hour=1)}))

    assert by_gpus.configuration is not None
    assert by_cost.configuration is not None
    assert by_gpus.configuration.gpu == H100
    assert by_cost.configuration.gpu == A100
    assert by_cost.gpus > by_gpus.gpus
    assert any("costs" in a.reason for a in by_cost.alternatives)


def test_a_pinned_configuration_is_the_only_one_considered() -> None:
    pinned = ConfigurationKey(LLAMA_8B, H100, "FP8", tensor_parallel=2)

    sizing = size(replace(call_center(), pinned=pinned))

    assert sizing.configuration == pinned
    assert sizing.alternatives == ()
    assert sizing.gpus == 2 * sizing.replicas


def test_precision_is_chosen_with_its_accuracy_note_and_never_below_8_bits() -> None:
    sizing = size(replace(call_center(arrivals=Arrivals.POISSON), precision=None))

    assert sizing.configuration is not None
    assert sizing.configuration.precision in {"FP8", "BF16", "FP16"}
    assert not {a.configuration.precision for a in sizing.alternatives} & {"INT4", "NVFP4", "MXFP4"}
    if sizing.configuration.precision == "FP8":
        assert any(w.startswith("PrecisionChosen") for w in sizing.warnings)


def test_a_70b_model_takes_several_gpus_a_replica_and_packs_servers() -> None:
    sizing = size(
        replace(call_center(arrivals=Arrivals.POISSON, ttft_milliseconds=1500, peak=10), model=LLAMA_70B, profiles=())
    )

    assert sizing.configuration is not None
    per_replica = sizing.configuration.gpus_per_replica
    assert per_replica > 1
    assert sizing.gpus == sizing.replicas * per_replica
    assert sizing.servers == -(-sizing.replicas // (8 // per_replica))
    assert sizing.requests_per_second_per_server == pytest.approx(
        8 // per_replica * sizing.requests_per_second_per_replica
    )


def test_concurrent_requests_instead_of_a_rate() -> None:
    workload = Workload(input_tokens=2000, output_tokens=200, concurrent_requests=95)

    sizing = size(replace(call_center(), workload=workload))

    assert sizing.concurrency_per_replica == 10
    assert sizing.replicas == 10
    assert sizing.peak_requests_per_second == pytest.approx(9.5 * 5.1954)


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_precisions_below_8_bits_only_must_be_asked_for(arrivals: Arrivals) -> None:
    request = replace(call_center(arrivals=arrivals), model="openai/gpt-oss-20b", precision=None, profiles=())

    with pytest.raises(InvalidInput, match=r"^model\.precision: .*MXFP4 only.*set model.precision, for example MXFP4"):
        size(request)
    with pytest.raises(InvalidInput, match=r"^model\.allowedPrecisions: .*does not include INT4"):
        size(replace(request, allowed_precisions=("INT4",)))
    for asked in (replace(request, precision="MXFP4"), replace(request, allowed_precisions=("MXFP4",))):
        assert size(asked).configuration.precision == "MXFP4"  # type: ignore[union-attr]


def test_a_format_with_a_shipped_fit_can_be_allowed_though_it_was_never_published() -> None:
    request = replace(
        call_center(arrivals=Arrivals.CLOSED_LOOP),
        model="meta-llama/Llama-3.3-70B-Instruct",
        precision=None,
        profiles=(),
        hardware=Hardware(gpus=("B200-SXM-180GB",)),
        sla=Sla(inter_token_latency=Limit(30, Percentile.MEAN)),
    )

    allowed = size(replace(request, allowed_precisions=("NVFP4",)))

    assert allowed.configuration is not None
    assert allowed.configuration.precision == "NVFP4"
    assert not any(w.startswith("PrecisionNotPublished") for w in allowed.warnings)
    by_itself = size(request)
    assert by_itself.configuration is not None
    assert by_itself.configuration.precision in ("BF16", "FP8")


def test_lengths_outside_the_measured_ones_are_extrapolated_and_say_so() -> None:
    workload = Workload(input_tokens=100, output_tokens=5000, peak_requests_per_second=5)

    sizing = size(replace(call_center(arrivals=Arrivals.POISSON), workload=workload))

    assert sizing.basis is Basis.EXTRAPOLATED
    assert any(w.startswith("Extrapolated") for w in sizing.warnings)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": "unknown/model"}, UnknownModel, "model.name"),
        ({"hardware": Hardware(gpus=("ABACUS",))}, UnknownGPU, "hardware.gpus"),
        ({"hardware": Hardware(gpus=())}, InvalidInput, "hardware.gpus"),
        ({"hardware": Hardware(gpus=(H100,), tensor_parallel=0)}, InvalidInput, "hardware.tensorParallel"),
        ({"workload": Workload(2000, 200, peak_requests_per_second=1, offline=JOB)}, InvalidInput, "exactly one of"),
        ({"workload": Workload(2000, 200, offline=JOB)}, InvalidInput, r"traffic\.offline: .* set sla\.mode: Offline"),
        ({"workload": Workload(2000, 200, input_tokens_p99=9, peak_requests_per_second=1)}, InvalidInput, "TokensP99"),
        ({"workload": Workload(2000, 200, peak_requests_per_second=1e300)}, InvalidInput, "check the unit"),
        ({"engine": Engine.VLLM, "batchings": (Batching.STATIC,)}, InvalidInput, "sizing.batching"),
        ({"pricing": {H100: Pricing(gpu_hour=float("nan"))}}, InvalidInput, "pricing.gpuHour of H100"),
        ({"pricing": {H100: Pricing(server_price=1, amortization_years=-4)}}, InvalidInput, "amortizationYears"),
        ({"profiles": (NAN_PROFILE,)}, InvalidInput, "benchmark llama-3-8b-h100-fp8: has a latency of nan"),
        ({"workload": Workload(-1, 200, peak_requests_per_second=1)}, InvalidInput, "traffic.inputTokens"),
        ({"workload": Workload(2000, float("nan"), peak_requests_per_second=1)}, InvalidInput, "traffic.outputTokens"),
        ({"workload": Workload(2000, 200)}, InvalidInput, "exactly one of peakRequestsPerSecond"),
        (
            {"workload": Workload(2000, 200, cached_input_percent=100, peak_requests_per_second=1)},
            InvalidInput,
            "cachedInputPercent",
        ),
        ({"sla": Sla()}, InvalidInput, "sla.timeToFirstToken"),
        ({"sla": Sla(mode=SlaMode.SEQUENTIAL)}, InvalidInput, "sla.endToEnd"),
        ({"sla": Sla(SlaMode.OFFLINE, end_to_end=TTFT)}, InvalidInput, "sla.endToEnd: mode Offline has no such limit"),
        ({"sla": Sla(SlaMode.SEQUENTIAL, TTFT, None, TTFT)}, InvalidInput, "sla.timeToFirstToken: mode Sequential has"),
        ({"sla": Sla(time_to_first_token=Limit(0, Percentile.P95))}, InvalidInput, "milliseconds"),
    ],
    ids=str,
)
def test_bad_input_names_the_field(change: dict[str, object], error: type[InvalidInput], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        size(replace(call_center(), **change))  # type: ignore[arg-type]

    assert "\n" not in str(caught.value)
