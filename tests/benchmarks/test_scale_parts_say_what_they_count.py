from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from at_scale.exporter import Page
from at_scale.exposition import MetricsPage
from at_scale.figures import AUTOSCALER, CONTROLLER_MANAGER, YARDSTICK, AutoscalerFigures, Delays, Spent, Step
from at_scale.goals import YARDSTICK_MILLISECONDS, beside, goals, missed
from at_scale.kinds import FILLED, Fault, fleet
from at_scale.lives import slope_per_hour
from at_scale.machine import CpuTimes, cpu_times, resident_megabytes, yardstick_milliseconds
from at_scale.manifests import resource
from at_scale.phases import delays_of, first_raises
from at_scale.probing import Health
from at_scale.profiling import FILES, Part, by_part, milliseconds, part_of
from at_scale.tables import tables
from at_scale.traffic import Traffic
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from scale import arguments, plan_of

OPERATOR = Path(__file__).resolve().parents[2] / "operator" / "src"
METRICS = """\
# HELP requests Requests.
requests{verb="GET",code="200"} 3
requests{verb="PATCH",code="200",resource="a\\"b"} 2
requests{verb="PATCH",code="409"} 1
requests_total 7
up 1.5e+01
"""


def spent(cores: float = 0.1, *, queries: float = 0.5, health: Health | None = None) -> Spent:
    own = {AUTOSCALER: cores, CONTROLLER_MANAGER: 0.01, "kube-apiserver": cores, "machine": 1.0, "others": 0.25}
    writes = {"inferencedeployments/status": 0.0, "events": 1.0}
    return Spent(600.0, own, {AUTOSCALER: 200.0}, queries, 0.0, 40.0, writes, 0.0, health)


def measured(name: str, resources: int, cores: float) -> AutoscalerFigures:
    found = AutoscalerFigures(name, resources, {})
    found.quiet = spent(cores, health=Health({"200": 9, "503": 1}, 2.5) if name == "firsttoken" else None)
    found.step = Step(Delays.of([4.0, 6.0, 8.0, 20.0], never=1), 2.0, spent(cores))
    return found


def test_a_load_changes_for_each_workload_at_its_own_instant() -> None:
    traffic = Traffic([2.0, 10.0], now=0.0)
    traffic.add_pods([0, 1, 1], now=0.0)

    instants = traffic.change(3.0, now=10.0, spread_seconds=4.0)
    traffic.advance(20.0)

    assert sorted(instants) == [11.0, 13.0]
    first, second = ((at, 3 * 20 - 2 * at) for at in instants)
    # Seconds at the old rate, and three times those after the instant; two pods share the second workload.
    assert traffic.served.tolist() == pytest.approx([2.0 * first[1], 5.0 * second[1], 5.0 * second[1]])
    assert traffic.loads().tolist() == [3.0, 3.0]
    assert traffic.pod_rates().tolist() == pytest.approx([6.0, 15.0, 15.0])


def test_noise_leaves_the_mean_load() -> None:
    traffic = Traffic([5.0] * 400, now=0.0)
    traffic.add_pods(range(400), now=0.0)
    traffic.is_noisy = True

    traffic.advance(60.0)

    assert traffic.served.mean() == pytest.approx(300.0, rel=0.02)
    assert 10 < traffic.served.std() < 25


def test_the_page_has_every_series_of_a_pod_or_the_load_of_a_workload() -> None:
    page = Page()
    page.take({"workloads": [{"namespace": "a", "name": "w", "rate": 1000.0, "pods": 2, "tokens": [500, 100]}]})
    page.take({"pods": [["a", "w-1", 0], ["a", "w-2", 0], ["a", "w-1", 0]]})
    page.take({"factor": 3.0, "spread": 0.0})

    pods, loads = MetricsPage(page.text(pods=True)), MetricsPage(page.text(pods=False))

    served = pods.sum("vllm:time_to_first_token_seconds_count", pod="w-1")
    assert pods.sum("up") == 2
    assert pods.sum("vllm:prompt_tokens_total", pod="w-1") == 500 * served
    assert pods.sum("vllm:request_generation_tokens_sum", pod="w-1") == 100 * served
    assert pods.sum("vllm:time_to_first_token_seconds_bucket", pod="w-1", le="+Inf") == served
    assert pods.sum("workload_load") == 0
    assert loads.by("workload_load", "namespace", "deployment") == {("a", "w"): 6.0}
    assert len(page.scrapes) == 2


def test_series_are_added_up_by_their_labels() -> None:
    page = MetricsPage(METRICS)

    assert page.sum("requests") == 6
    assert page.sum("requests", verb="PATCH") == 3
    assert page.by("requests", "verb", "code") == {("GET", "200"): 3, ("PATCH", "200"): 2, ("PATCH", "409"): 1}
    assert page.sum("up") == 15
    assert page.sum("absent") == 0


def test_percentiles_are_delays_that_were_seen() -> None:
    delays = Delays.of([float(second) for second in range(1, 101)], never=2, early=1)

    assert (delays.p50, delays.p90, delays.p99, delays.longest) == (50, 90, 99, 100)
    assert Delays.of([], never=3).p99 is None


def test_a_delay_counts_from_the_instant_of_its_own_workload() -> None:
    workloads = fleet(3, "ClosedLoop", mixed=False)
    writes = [(12.0, "w-00000", 1), (15.0, "w-00000", 3), (16.0, "w-00000", 4), (9.0, "w-00001", 3)]
    raised = first_raises(writes, {"w-00000": 1, "w-00001": 1, "w-00002": 1})

    delays = delays_of(workloads, raised, [10.0, 11.0, 12.0])

    assert raised == {"w-00000": 15.0, "w-00001": 9.0}
    assert (delays.longest, delays.never, delays.early) == (5.0, 1, 1)


def test_every_tenth_of_the_mixed_fleet_is_broken_in_turn() -> None:
    workloads = fleet(80, "Poisson", mixed=True)

    assert Counter(workload.fault for workload in workloads if workload.fault) == dict.fromkeys(Fault, 2)
    assert len({workload.kind.spec["model"]["name"] for workload in workloads}) == 3
    assert Counter(workload.pool for workload in workloads)[""] == 20
    for workload in workloads:
        InferenceDeployment.model_validate(resource(workload))


def test_the_load_nearly_fills_one_replica_and_three_times_the_load_three() -> None:
    (workload,) = fleet(1, "Poisson", mixed=False)

    carried = workload.kind.requests_per_second / FILLED
    assert float(workload.kind.spec["traffic"]["peakRequestsPerSecond"]) == pytest.approx(14 * carried, rel=0.01)
    assert 2 < 3 * FILLED < 3


def test_memory_that_grows_is_told_for_an_hour_of_ticks() -> None:
    warm_up = [(float(second), 100.0 + second) for second in range(0, 300, 5)]
    grown = [(float(second), 400.0 + 0.01 * second) for second in range(300, 605, 5)]

    # 600 s in which the ticks of two hours passed: 6 MB in two hours.
    assert slope_per_hour(warm_up + grown, hours=2.0) == pytest.approx(3.0, abs=0.01)
    assert slope_per_hour(grown[:2], hours=2.0) is None


def test_the_cores_of_the_others_are_what_is_left_of_the_machine() -> None:
    cores = CpuTimes({"a": 3.0, "new": 1.0}, 10.0).cores_since(CpuTimes({"a": 1.0, "gone": 9.0}, 4.0), 2.0)

    assert cores == {"a": 1.0, "machine": 3.0, "others": 2.0}
    assert cpu_times({"here": os.getpid(), "gone": 2**22}).processes.keys() == {"here"}
    assert resident_megabytes(os.getpid()) > 20


def test_a_sample_belongs_to_the_innermost_function_that_names_a_part() -> None:
    package = "f (/src/firsttoken_operator"
    publishing = [f"{package}/run/loop.py:9)", f"{package}/act/publish.py:3)", f"{package}/api/status.py:7)"]

    assert part_of(publishing) is Part.WRITE
    assert part_of([*publishing, f"{package}/observe/store.py:3)"]) is Part.WATCH
    assert part_of([f"{package}/decide/up.py:1)", "f (/src/firsttoken_sizing/performance/table.py:3)"]) is Part.DECIDE
    assert part_of(["_run_once (/usr/lib/asyncio/base_events.py:9)"]) is Part.LOOP
    assert by_part([";".join(publishing) + " 3", "_run (/usr/lib/asyncio/events.py:1) 1"]) == {
        Part.WRITE: 3,
        Part.LOOP: 1,
    }


def test_every_part_is_told_by_files_that_are_there() -> None:
    ours = [beginning for beginning in FILES if beginning.startswith("firsttoken_operator/")]

    assert {f"firsttoken_operator/{name}/" for name in ("act", "decide", "estimate", "observe")} <= set(ours)
    assert [beginning for beginning in ours if not list(OPERATOR.glob(f"{beginning}*"))] == []
    assert set(FILES.values()) == set(Part) - {Part.LOOP}


def test_cpu_time_is_shared_out_by_samples() -> None:
    parts = milliseconds(Counter({Part.DECIDE: 30, Part.WRITE: 10}), cpu_seconds=8.0, resources=100, ticks=40)

    assert parts["decide"] == 1.5
    assert parts["write"] == 0.5
    assert sum(parts.values()) == 2.0


def test_ours_stands_over_the_peer_of_the_same_size() -> None:
    shown = tables([measured("firsttoken", 100, 0.05), measured("KEDA", 100, 0.1), measured("firsttoken", 500, 0.2)])

    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if line[:1] == "|"]
    ratios = [row for row in rows if row[0] == "firsttoken / KEDA, 100"]
    assert [row[0] for row in rows[2:6]] == [
        "firsttoken, 100",
        "KEDA, 100",
        "firsttoken, 500",
        "firsttoken / KEDA, 100",
    ]
    assert rows[2][1:7] == ["6.00", "20.00", "20.00", "20.00", "1", "0"]
    assert ratios[0][1] == "1.00"
    assert "0.50" in ratios[1]
    assert "Soak" not in shown


def test_a_goal_that_does_not_hold_is_named() -> None:
    ours, peer = measured("firsttoken", 100, 0.2), measured("KEDA", 100, 0.1)

    lines = missed([*goals(ours), *beside(ours, peer)])

    assert "step to write, p99: 20, at most 18 s" in lines
    assert "never written: 1, at most 0 " in lines
    assert "/healthz other than 200, quiet: 1, at most 0 " in lines
    assert "CPU of the autoscaler beside KEDA's: 0.21, at most 0.1 cores" in lines
    assert not any("queries" in line or "p50" in line for line in lines)
    assert list(goals(measured("firsttoken", 5000, 0.2))) == []


def test_a_budget_is_that_of_this_cpu() -> None:
    ours = replace(measured("firsttoken", 1000, 0.2), profile={"quiet": {Part.DECIDE.value: 1.5}})
    slower = replace(ours, about={YARDSTICK: 2 * YARDSTICK_MILLISECONDS})
    over = "CPU of decide a resource and tick: 1.5, at most 1 ms"

    assert over in missed(list(goals(ours)))
    assert not any("CPU of decide" in line for line in missed(list(goals(slower))))
    assert yardstick_milliseconds() > 0


def test_arguments_choose_sizes_and_phases(capsys: pytest.CaptureFixture[str]) -> None:
    asked = arguments(["--n", "100,1000", "--scenario", "quiet,spread", "--only", "ours", "--quiet-minutes", "2"])

    assert asked.n == (100, 1000)
    plan = plan_of(asked)
    assert (plan.phases, plan.quiet_seconds, plan.arrivals, plan.pods) == (("quiet", "spread"), 120.0, "Poisson", 1)
    assert "soak" in plan_of(arguments(["--scenario", "full"])).phases
    with pytest.raises(SystemExit):
        arguments(["--scenario", "sleep"])
    assert "no phase is called sleep" in capsys.readouterr().err
