from __future__ import annotations

import csv
import io
import itertools
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from firsttoken_sizing.engines import Engine
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.report.simulation import Simulated, requests_csv, simulation_json, simulation_table, verdict
from firsttoken_sizing.simulation import Requests, Settings, equal_requests, poisson_arrivals, simulate
from firsttoken_sizing.simulation.outcome import summarize
from firsttoken_sizing.simulation.subject import Subject
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching, Limit, Percentile, Sla

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10, max_batch=8)
LENGTHS = Lengths(500, 500, 100)


def requests() -> Requests:
    rng = np.random.default_rng(4)
    equal = equal_requests(LENGTHS, poisson_arrivals(12.0, 200, rng))
    return replace(equal, output_tokens=rng.integers(20, 180, 200))


def simulated(sla: Sla) -> Simulated:
    settings = Settings(kv_cache_tokens=50_000)
    subject = Subject(
        ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8"),
        Engine.TENSORRT_LLM,
        LENGTHS,
        STEP,
        settings,
        "made up",
    )
    outcome = simulate(STEP, requests(), settings)
    summary = summarize(outcome, 0, 20, 50_000)
    return Simulated("ns", "rag", subject, settings, "poisson", "Poisson arrivals", 1, sla, outcome, summary)


def test_the_document_has_the_names_of_the_contract_and_the_verdict_of_the_sla() -> None:
    sla = Sla(time_to_first_token=Limit(1, Percentile.P95), end_to_end=Limit(60_000, Percentile.MEAN))

    document = simulation_json(simulated(sla))

    for name in ("ttftMilliseconds", "itlMilliseconds", "endToEndMilliseconds"):
        assert list(document[name]) == ["mean", "p50", "p90", "p95", "p99"]
    assert document["requestsPerSecond"] == pytest.approx(10, rel=0.3)
    assert 0 < document["gpuBusyPercent"] <= 100
    assert 1 <= document["meanBatch"] <= 8
    assert 0 < document["kvPeakPercent"] <= 100
    assert set(document["queueing"]) == {"queuedPercent", "waitMilliseconds", "preemptions"}
    assert [(limit["limit"], limit["kept"]) for limit in document["sla"]] == [("TTFT P95", False), ("E2E Mean", True)]


def test_the_table_says_which_limit_is_broken() -> None:
    text = io.StringIO()

    Console(file=text, width=100).print(simulation_table(simulated(Sla(time_to_first_token=Limit(1, Percentile.P95)))))

    assert "BROKEN" in text.getvalue()
    assert "ns/rag" in text.getvalue()


def test_the_verdict_says_by_which_statistic_and_with_how_many_replicas() -> None:
    kept, missed, undeclared = (
        verdict(simulated(sla))
        for sla in (
            Sla(time_to_first_token=Limit(60_000, Percentile.P95)),
            Sla(time_to_first_token=Limit(1, Percentile.P95), end_to_end=Limit(60_000, Percentile.MEAN)),
            Sla(),
        )
    )

    assert kept.startswith("SLA kept with 1 replica of 1 x H100-SXM-80GB: TTFT P95 is ")
    assert kept.endswith(" ms, at most 60,000 ms asked.")
    assert missed.startswith("SLA missed with 1 replica")
    assert "E2E Mean is " in missed
    assert undeclared == "1 replica of 1 x H100-SXM-80GB: no limit is declared."


def test_every_request_is_a_line_that_adds_up() -> None:
    one = simulated(Sla())

    lines = list(csv.DictReader(io.StringIO(requests_csv(one.outcome))))

    assert len(lines) == 200
    for line in lines:
        arrival, first, finish = (float(line[name]) for name in ("arrival_s", "first_token_s", "finish_s"))
        assert float(line["ttft_ms"]) == pytest.approx(1000 * (first - arrival), abs=0.01)
        assert float(line["e2e_ms"]) == pytest.approx(1000 * (finish - arrival), abs=0.01)
    single = simulate(STEP, equal_requests(Lengths(5, 5, 1), np.array([0.0])))
    assert next(csv.DictReader(io.StringIO(requests_csv(single))))["itl_ms"] == ""


@pytest.mark.parametrize("batching", Batching)
def test_a_slot_of_the_picture_never_holds_two_requests(batching: Batching) -> None:
    figure = pytest.importorskip("firsttoken_sizing.report.simulation_figure")
    outcome = simulate(STEP, requests(), Settings(batching=batching))

    slots = figure.slots_of(outcome, 0, 2.0, 12.0)

    assert len(slots) > 20
    assert max(slots.values()) < 8
    for slot in set(slots.values()):
        inside = sorted((outcome.admitted_s[r], outcome.released_s[r]) for r, s in slots.items() if s == slot)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(inside))


def test_the_page_shows_both_ways_of_batching_and_loads_nothing() -> None:
    figure = pytest.importorskip("firsttoken_sizing.report.simulation_figure")
    panels = [
        figure.BatchPanel(how.value, simulate(STEP, requests(), Settings(batching=how)))
        for how in (Batching.IN_FLIGHT, Batching.STATIC)
    ]

    page = figure.batch_page("<rag>", panels, 2.0, 12.0, ["a note"], "SLA kept")

    assert page.index("SLA kept") < page.rindex("Plotly.newPlot(")
    assert len(page.encode()) < 1_500_000
    assert "&lt;rag&gt;" in page
    assert "a note" in page
    for text in ("InFlight", "Static", "prefill", "decode", "done, slot not free", "waiting"):
        assert text in page
    assert 'src="http' not in page


def test_counts_change_where_an_interval_begins_or_ends() -> None:
    figure = pytest.importorskip("firsttoken_sizing.report.simulation_figure")

    at, count = figure.count_over_time(np.array([0.0, 2.0, 3.0]), np.array([2.0, 5.0, 9.0]), 1.0, 6.0)

    assert at.tolist() == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert count.tolist() == [1, 1, 2, 1, 1]
