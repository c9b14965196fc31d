"""The chart's alerts, judged by promtool: each fires on what it is for, and not beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.estimate import DEFAULT
from tests.helm.chart import of_kind, render

pytestmark = pytest.mark.cluster

FINE = {
    'firsttoken_leader{pod="leader"}': "1x600",
    'firsttoken_leader{pod="standby"}': "0x600",
    'firsttoken_cycle_duration_seconds_count{pod="leader"}': "0+4x600",
    'firsttoken_cycle_duration_seconds_count{pod="standby"}': "0+4x600",
    'firsttoken_decision_lag_seconds_bucket{le="1"}': "0+4x600",
    'firsttoken_decision_lag_seconds_bucket{le="60"}': "0+4x600",
    'firsttoken_decision_lag_seconds_bucket{le="+Inf"}': "0+4x600",
    'firsttoken_decisions_total{outcome="steady",reason="Steady"}': "0+4x600",
    'firsttoken_decisions_total{outcome="held",reason="Paused"}': "0+4x600",
    'firsttoken_source_queries_total{source="main",outcome="ok"}': "0+60x600",
    'firsttoken_source_queries_total{source="main",outcome="Throttled"}': "0+1x600",
    'firsttoken_unmet_gpus{namespace="a",name="b"}': "0x600",
    'firsttoken_condition{namespace="a",name="b",type="SLAMet"}': "1x600",
    'firsttoken_condition{namespace="a",name="b",type="Calibrated"}': "0x600",
    'firsttoken_capacity_factor{namespace="a",name="b"}': "0.9x600",
    'firsttoken_slo_requests_total{namespace="a",name="b"}': "0+1000x600",
    'firsttoken_slo_late_requests_total{namespace="a",name="b"}': "0+40x600",
    'firsttoken_slo_allowed_late_requests_total{namespace="a",name="b"}': "0+50x600",
    'firsttoken_slo_charged_late_requests_total{namespace="a",name="b"}': "0+40x600",
    'firsttoken_flaps_total{namespace="a",name="b"}': "0x600",
    'firsttoken_writes_total{kind="scale",outcome="done"}': "0+4x600",
    "firsttoken_writes_paused": "0x600",
    "firsttoken_clock_ahead_seconds": "-2x600",
}
"""Ten hours of an operator that is well, by the minute."""

ILL: dict[str, dict[str, str]] = {
    "FirsttokenDown": {'firsttoken_leader{pod="leader"}': "0x600"},
    "FirsttokenStandsStill": {'firsttoken_cycle_duration_seconds_count{pod="leader"}': "7x600"},
    "FirsttokenDecisionsLate": {'firsttoken_decision_lag_seconds_bucket{le="1"}': "0x600"},
    "FirsttokenDecisionFailed": {'firsttoken_decisions_total{outcome="error",reason="DecisionFailed"}': "0+4x600"},
    "FirsttokenMetricsMissing": {'firsttoken_decisions_total{outcome="held",reason="Missing"}': "0+4x600"},
    "FirsttokenSourceFailing": {'firsttoken_source_queries_total{source="main",outcome="ServerError"}': "0+99x600"},
    "FirsttokenGPUsMissing": {'firsttoken_unmet_gpus{namespace="a",name="b"}': "8x600"},
    "FirsttokenSLAMissed": {'firsttoken_condition{namespace="a",name="b",type="SLAMet"}': "0x600"},
    "FirsttokenTTFTMissed": {
        'firsttoken_slo_late_requests_total{namespace="a",name="b"}': "0+200x600",
        'firsttoken_slo_allowed_late_requests_total{namespace="a",name="b"}': "0+100x600",
        'firsttoken_slo_charged_late_requests_total{namespace="a",name="b"}': "0+200x600",
    },
    "FirsttokenErrorBudgetBurns": {'firsttoken_slo_allowed_late_requests_total{namespace="a",name="b"}': "0+10x600"},
    "FirsttokenCapacityClamped": {'firsttoken_capacity_factor{namespace="a",name="b"}': "0.5x600"},
    "FirsttokenFlapping": {'firsttoken_flaps_total{namespace="a",name="b"}': "0+1x600"},
    "FirsttokenWritesFailing": {'firsttoken_writes_total{kind="scale",outcome="denied"}': "0+1x600"},
    "FirsttokenWritesPaused": {"firsttoken_writes_paused": "1x600"},
    "FirsttokenClocksDiffer": {"firsttoken_clock_ahead_seconds": "-60x600"},
}

NO_BUDGET_BURNS: dict[str, dict[str, str]] = {
    "one late of twenty": {
        'firsttoken_slo_requests_total{namespace="a",name="b"}': "0x470 20x130",
        'firsttoken_slo_late_requests_total{namespace="a",name="b"}': "0x470 1x130",
        'firsttoken_slo_allowed_late_requests_total{namespace="a",name="b"}': "0x470 0.2x130",
        'firsttoken_slo_charged_late_requests_total{namespace="a",name="b"}': "0x470 1x130",
    },
    "all late by a mean, for hours": {
        'firsttoken_slo_late_requests_total{namespace="a",name="b"}': "0+40x60 2400+1000x540",
        'firsttoken_slo_allowed_late_requests_total{namespace="a",name="b"}': "0+50x60 3000x540",
        'firsttoken_slo_charged_late_requests_total{namespace="a",name="b"}': "0+40x60 2400x540",
    },
    "all late by a mean, since an hour": {
        'firsttoken_slo_late_requests_total{namespace="a",name="b"}': "0+40x420 16800+1000x180",
        'firsttoken_slo_allowed_late_requests_total{namespace="a",name="b"}': "0+50x420 21000x180",
        'firsttoken_slo_charged_late_requests_total{namespace="a",name="b"}': "0+40x420 16800x180",
    },
}


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (manifest,) = of_kind(render("prometheusRule.enabled=true"), "PrometheusRule")
    file = tmp_path_factory.mktemp("alerts") / "rules.yaml"
    file.write_text(yaml.safe_dump(manifest["spec"]))
    return file


def promtool(control_plane: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([control_plane / "promtool", *arguments], capture_output=True, text=True, check=False)


def fired(alert: str, rule: dict[str, Any]) -> dict[str, Any]:
    """The labels that the alert then has."""
    of_rule = {
        "FirsttokenMetricsMissing": {"reason": "Missing"},
        "FirsttokenSourceFailing": {"source": "main"},
        "FirsttokenWritesFailing": {"kind": "scale"},
    }
    of_resource = (
        "FirsttokenGPUsMissing", "FirsttokenSLAMissed", "FirsttokenTTFTMissed", "FirsttokenErrorBudgetBurns",
        "FirsttokenCapacityClamped", "FirsttokenFlapping",
    )  # fmt: skip
    labels = of_rule.get(alert, {"namespace": "a", "name": "b"} if alert in of_resource else {})
    return {"exp_labels": labels | rule["labels"]}


def test_the_rules_are_valid_and_each_has_an_illness(control_plane: Path, rules: Path) -> None:
    done = promtool(control_plane, "check", "rules", "--lint=all", "--lint-fatal", rules)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [rule["alert"] for rule in yaml.safe_load(rules.read_text())["groups"][0]["rules"]] == list(ILL)


def test_capacity_is_clamped_where_the_law_says(rules: Path) -> None:
    (rule,) = (r for r in yaml.safe_load(rules.read_text())["groups"][0]["rules"] if "Clamped" in r["alert"])
    law = DEFAULT.tail_capacity

    for bound in (f"<= {law.least_factor:g}", f">= {law.most_factor:g}"):
        assert f"firsttoken_capacity_factor {bound})" in rule["expr"]


def judged(
    control_plane: Path, rules: Path, tmp_path: Path, changed: dict[str, str], ill: str | None
) -> subprocess.CompletedProcess[str]:
    """Ask promtool whether, with these series changed, `ill` and no other alert fires after eight hours."""
    spec = yaml.safe_load(rules.read_text())
    known = {rule["alert"]: rule for rule in spec["groups"][0]["rules"]}
    for rule in known.values():
        del rule["annotations"]  # Texts with numbers in them; that they can be filled in is checked above.
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (FINE | changed).items()],
        "alert_rule_test": [
            {"eval_time": "8h", "alertname": name, "exp_alerts": [fired(name, rule)] if name == ill else []}
            for name, rule in known.items()
        ],
    }
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}))
    return promtool(control_plane, "test", "rules", file)


@pytest.mark.parametrize("ill", [None, *ILL])
def test_an_illness_fires_its_alert_and_no_other(
    control_plane: Path, rules: Path, tmp_path: Path, ill: str | None
) -> None:
    done = judged(control_plane, rules, tmp_path, ILL[ill] if ill else {}, ill)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("case", "ill"),
    [
        ("one late of twenty", None),
        ("all late by a mean, for hours", "FirsttokenTTFTMissed"),
        ("all late by a mean, since an hour", "FirsttokenTTFTMissed"),
    ],
)
def test_no_error_budget_burns_by_one_request_or_by_a_mean(
    control_plane: Path, rules: Path, tmp_path: Path, case: str, ill: str | None
) -> None:
    done = judged(control_plane, rules, tmp_path, NO_BUDGET_BURNS[case], ill)

    assert done.returncode == 0, done.stdout + done.stderr
