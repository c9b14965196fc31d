"""docs/runtimes.md: a row for each family, bounds as the families have them, pages and tests that exist."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from firsttoken_operator.api.inference_deployment import MetricsSpec
from firsttoken_operator.api.served import served_replica, sleep_seconds
from firsttoken_operator.domain import Reason, health_of
from firsttoken_operator.families import EMULATED, FAMILIES, Metric, MetricFamily, Signal
from firsttoken_operator.run.settings import GatewaySettings
from firsttoken_operator.runtimes import RuntimeType
from tests.docs.pages import ROOT, blocks, table
from tests.fixtures.moving import PAGES, recorded
from tests.operator.act.golden import EXAMPLES, rendering
from tests.operator.families.test_a_family_is_one_file import PAGES as PAGE_OF
from tests.operator.observe.test_every_runtime_is_read import PICKER, RUNTIMES
from tools.engines import vllm

PAGE = ROOT / "docs/runtimes.md"
READ = {row[0]: row for row in table(PAGE, "## What is read")}
SET = {row[0]: row for row in table(PAGE, "## What to set")}
WRONG = table(PAGE, "## When something is wrong")
RUN_FOR_IT = {"Triton": ("2.51", "test"), "vLLM": (vllm.VERSION.partition("+")[0].removesuffix(".0"), "engines")}
ENGINES = ROOT / "tests/engines"
"""Tests with real servers."""
PARSER_OF = {"vLLM": "vllm-0.32.0", "SGLang": "sglang-0.5.23"}
"""Lists of the flags that a server's own parser knows, by the family that names flags of it."""
TOLD = {"running": Signal.RUNNING, "KV cache": Signal.KV_USAGE, "tokens": Signal.TOKENS, "as they come": Signal.STARTED}


def test_each_family_has_a_row_in_the_order_in_which_they_are_looked_for() -> None:
    assert list(READ) == list(SET) == [family.name for family in FAMILIES]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_row_tells_what_the_family_tells(family: MetricFamily) -> None:
    told = READ[family.name][4]

    assert {signal for word, signal in TOLD.items() if word in told} == set(family.signals) & set(TOLD.values())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_row_names_the_page_that_a_test_reads(family: MetricFamily) -> None:
    named = re.findall(r"[\w-]+", READ[family.name][6].partition("page")[2].removeprefix("s"))

    assert PAGE_OF[family.name] in named
    assert RUNTIMES[PAGE_OF[family.name]].family == family.name
    assert all((PAGES / f"{name}.txt").is_file() for name in named)
    real = re.search(r"the real server, ([\d.]+) \(`?make (\w+)`?\)", READ[family.name][6])
    assert (real.groups() if real else None) == RUN_FOR_IT.get(family.name)


@pytest.mark.parametrize(("family", "target"), [(name, target) for name, (_, target) in RUN_FOR_IT.items()])
def test_a_server_that_is_called_real_is_read_and_asked_to_stop_where_the_row_says(family: str, target: str) -> None:
    tests = {path: path.read_text() for path in ENGINES.glob(f"test_a_real_{family.lower()}_*.py")}
    on_demand = {"pytest.mark.engines" in text for text in tests.values()}

    assert any(path.stem.endswith("_is_read") for path in tests)
    assert any(".drain(" in text for text in tests.values())
    assert on_demand == {target == "engines"}
    assert f"real {family} ({RUN_FOR_IT[family][0]})" in " ".join(PAGE.read_text().split("## What to set")[1].split())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_flags_to_set_are_those_of_its_server(family: MetricFamily) -> None:
    told = set(re.findall(r"--[a-z-]+", " ".join(SET[family.name])))
    triton = set(re.findall(r"--[a-z-]+", (ROOT / "operator/src/firsttoken_operator/runtimes/triton.py").read_text()))
    parser = PARSER_OF.get(family.name)

    assert told <= (set((ROOT / f"tests/fixtures/flags/{parser}.txt").read_text().split()) if parser else triton)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_bounds_are_those_of_the_server(family: MetricFamily) -> None:
    bounds = [float(word) for word in re.findall(r"[\d.]+", READ[family.name][3])]
    shown = re.findall(rf'{family.ttft}_bucket{{.*le="([\d.]+)"}}', recorded(PAGE_OF[family.name]))
    below = {1000 * family.ttft_unit_seconds * float(bound) for bound in shown}

    if family in EMULATED:
        milliseconds = [1000 * family.ttft_unit_seconds * bound for bound in family.series(Metric.TTFT).bounds]
        assert bounds == pytest.approx([bound for bound in milliseconds if bound <= 1000])
    if family.name != "Triton TensorRT-LLM":  # whose page shows bounds that were set
        assert {bound for bound in below if bound <= 1000} <= set(bounds)
    assert ("off" in READ[family.name][3]) == ("histogram_latencies" in family.advice.ttft)


def test_a_family_names_the_runtimes_that_are_rendered_and_publish_it() -> None:
    without_versions = {name: re.sub(r" ?\(.*?\)", "", row[5]) for name, row in READ.items()}
    rendered = {name: set(cell.split(", ")) for name, cell in without_versions.items() if cell != "no"}

    assert set().union(*rendered.values()) == set(RuntimeType)
    assert rendered == {
        "vLLM": {"VLLM", "NIM"}, "SGLang": {"SGLang", "NIM"}, "Triton": {"Triton"}, "trtllm-serve": {"TRTLLMServe"},
        "NIM 1.x": {"NIM"},
    }  # fmt: skip


def test_a_rendered_release_has_a_row_with_its_probes_and_its_example() -> None:
    releases = [(runtime, release) for runtime in RuntimeType for release in runtime.spec.releases]
    rows = table(PAGE, "## What is rendered")

    assert len(rows) == len(releases)
    for row, (runtime, release) in zip(rows, releases, strict=True):
        container, stem = release.container, row[5]
        path = ROOT / f"examples/{stem}.yaml"
        since = release.since
        assert row[0] == runtime
        assert row[1] in (f"{since[0]}.{since[1]} and later", f"{since[0]}.x")
        assert row[2].split(", ") == [container.ready_path, container.live_path]
        assert path in EXAMPLES
        assert rendering(path).container is container
        version = re.search(r"from (\d+)\.(\d+) on", row[6])
        known = tuple(int(number) for number in version.groups()) if version else since
        assert container.spans_since == (None if row[6] == "no" else known)
        assert set(re.findall(r"--[a-z-]+", row[6])) <= set(container.flags)


@pytest.mark.parametrize("row", table(PAGE, "## What is rendered"), ids=lambda row: f"{row[0]} {row[1]}")
def test_the_limit_and_the_drain_are_as_the_row_says(row: tuple[str, ...]) -> None:
    made = rendering(ROOT / f"examples/{row[5]}.yaml")
    runtime = made.runtime
    told = served_replica(made.resource, runtime, made.configuration)
    start = made.container.start(replace(told, ttft_limit_seconds=0.123))
    text = " ".join((*start.arguments, *start.environment.values(), *start.files.values()))

    assert ("0.123" in text) == (not row[3].startswith("no"))
    assert start.drains == ("the server" in row[4])
    assert all(flag in text for flag in re.findall(r"--[a-z-]+", row[4]))
    assert sleep_seconds(runtime, drains=True) == 10
    assert sleep_seconds(runtime, drains=False) == runtime.termination_grace_period_seconds - 5


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_flags_are_those_that_the_problems_name(family: MetricFamily) -> None:
    told = re.findall(r"--[a-z-]+|DYN_[A-Z_]+|return_perf_metrics|REPORT_CUSTOM_METRICS", " ".join(SET[family.name]))
    named = " ".join((family.advice.publish, family.advice.ttft, family.advice.buckets))

    assert set(re.findall(r"--[a-z-]+|DYN_[A-Z_]+|return_perf_metrics|REPORT_CUSTOM_METRICS", named)) <= set(told) | {
        "--allow-metrics"
    }


def test_every_problem_that_mends_is_in_the_table_with_what_it_does_to_the_replicas() -> None:
    reasons = {row[1]: row[2] for row in WRONG}
    kept = [Reason.TTFT_NOT_OBSERVED, Reason.LOW_RESOLUTION, Reason.TWO_JOBS]

    assert all(reasons[reason].startswith("follow") for reason in kept)
    assert {Reason(name) for name in reasons} - set(kept) == {
        Reason.UNKNOWN_RUNTIME, Reason.TWO_FAMILIES, Reason.FAMILY_CHANGING, Reason.SEVERAL_MODELS,
        Reason.SCRAPE_TOO_SLOW, Reason.LABEL_MISMATCH, Reason.EXPORTED_LABELS,
    }  # fmt: skip
    assert health_of(Reason.PARTIAL).may_raise
    assert not health_of(Reason.MISSING).may_raise


def test_the_model_of_an_ensemble_is_named_by_a_field_that_there_is() -> None:
    (block,) = (block for block in blocks(PAGE, "yaml") if "modelName" in block.text)
    spec = yaml.safe_load(block.text)["spec"]

    assert MetricsSpec.model_validate(spec["metrics"]).model_name == "ensemble"


def test_the_picker_is_scraped_with_the_labels_that_the_chart_is_told() -> None:
    (block,) = (block for block in blocks(PAGE, "yaml") if block.file == "picker.yaml")
    (job,) = yaml.safe_load(block.text)["scrape_configs"]
    text = " ".join(PAGE.read_text().split())
    gateway = GatewaySettings.model_validate(yaml.safe_load(re.search(r"`(\{requestsTotal.*?\})`", text)[1]))  # type: ignore[index]

    assert gateway.requests_total == PICKER.metric
    assert {gateway.name_label, gateway.namespace_label} == set(job["static_configs"][0]["labels"])
    assert gateway.selector == {"job": job["job_name"]}
