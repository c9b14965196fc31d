"""Near saturation few requests wait so long that the mean lies above the P95: so says the simulation, and reports."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from firsttoken_sizing import Arrivals, Hardware, Limit, Percentile, Sizing, SizingRequest, Sla, Workload, size
from firsttoken_sizing.profile import Latency
from firsttoken_sizing.report.curve_figure import Grouping, View, curve_figure
from firsttoken_sizing.report.curve_table import curve_tables
from firsttoken_sizing.report.curves import Loads, study
from firsttoken_sizing.report.quantity import Quantity
from firsttoken_sizing.report.sizing_figure import sizing_figure
from firsttoken_sizing.report.slow_few import remarks
from firsttoken_sizing.report.table import sizing_table
from firsttoken_sizing.simulation.load import FleetLoad, Process, simulate_load
from firsttoken_sizing.simulation.outcome import summarize
from firsttoken_sizing.simulation.subject import Subject, subject_of
from tests.fixtures.worked_examples import call_center

SHARE = 0.904
"""Share of the stable rate: a little more than the largest utilization that is sized for."""
POISSON = (
    "Poisson: where the mean is above the P95, fewer than 5 % of the requests wait so long that they lift it:"
    " those that come while every slot of the batch is taken, or in the middle of a long prompt."
)


@pytest.fixture(scope="module")
def request_of_long_answers() -> SizingRequest:
    """Short prompts with long answers fill the slots of the batch before anything else."""
    return SizingRequest(
        model="meta-llama/Meta-Llama-3-70B-Instruct",
        workload=Workload(input_tokens=200, output_tokens=2000, peak_requests_per_second=20),
        sla=Sla(time_to_first_token=Limit(300, Percentile.P95)),
        hardware=Hardware(gpus=("H100-SXM-80GB",)),
        arrivals=Arrivals.POISSON,
    )


@pytest.fixture(scope="module")
def sizing(request_of_long_answers: SizingRequest) -> Sizing:
    return size(request_of_long_answers)


def printed(*what: object) -> str:
    console = Console(file=io.StringIO(), width=400)
    console.print(*what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.slow
def test_the_simulation_has_the_mean_above_the_p95_too(sizing: Sizing, request_of_long_answers: SizingRequest) -> None:
    assert sizing.table is not None
    assert sizing.configuration is not None
    rate = SHARE * sizing.table.saturation_requests_per_second
    subject = subject_of(request_of_long_answers, sizing.configuration, sizing.batching)
    assert isinstance(subject, Subject)
    seconds = 60_000 / rate
    outcome, settings = simulate_load(
        subject, replace(subject.settings, replicas=1), FleetLoad(Process.POISSON, seconds, rate=rate, seed=3)
    )
    simulated = summarize(outcome, seconds / 10, seconds, settings.kv_cache_tokens).ttft
    modeled = sizing.table.at(rate).ttft

    for ttft in (simulated, modeled):
        assert ttft.mean is not None
        assert ttft.p95 is not None
        assert ttft.mean > 1.2 * ttft.p95
    assert modeled.p95 == pytest.approx(simulated.p95, rel=0.02)
    assert modeled.mean == pytest.approx(simulated.mean, rel=0.15)


def test_the_picture_of_a_size_says_why(sizing: Sizing) -> None:
    assert POISSON in sizing_figure([("x", sizing)]).notes


def test_the_curves_say_why(request_of_long_answers: SizingRequest) -> None:
    studied = study(request_of_long_answers, Loads(rates=(sizing_rate(request_of_long_answers),)))

    assert POISSON in printed(curve_tables("x", [studied]))
    assert POISSON in curve_figure([("x", [studied])], View(None, Quantity.REQUESTS, Grouping.MODEL)).notes


def sizing_rate(request: SizingRequest) -> float:
    table = size(request).table
    assert table is not None
    return SHARE * table.saturation_requests_per_second


def test_the_table_of_a_size_says_it_of_what_it_shows(sizing: Sizing) -> None:
    shown = replace(sizing, ttft=Latency(mean=120.0, p95=100.0))

    assert POISSON in printed(sizing_table("x", shown))
    assert "where the mean is above" not in printed(sizing_table("x", size(call_center())))


def test_it_is_said_once_for_each_kind_of_arrivals_and_never_of_the_median() -> None:
    above = Latency(mean=3.0, p50=1.0, p95=2.0, p99=2.5)
    shown = [(arrivals, statistic, above) for arrivals in Arrivals for statistic in Percentile for _ in range(2)]

    found = remarks(shown)

    assert [line.partition(", fewer")[0] for line in found] == [
        f"{arrivals}: where the mean is above the {statistic}" for arrivals in Arrivals for statistic in ("P95", "P99")
    ]
    assert "fewer than 1 % of" in found[1]
