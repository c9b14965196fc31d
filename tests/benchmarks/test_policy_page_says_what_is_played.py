from __future__ import annotations

from pathlib import Path

import pytest

import policy
from policies.contenders import TUNING_PARAMETERS
from policies.scenarios import SCENARIOS
from policies.tables import ResultTable

PAGE = policy.ROOT / "docs" / "policy.md"
TABLE = ResultTable("Means", ("policy", "inside SLA %"), (("ours", "99.1"),))


@pytest.mark.parametrize("name", TUNING_PARAMETERS)
def test_the_page_lists_the_tuning_parameters(name: str) -> None:
    values = ", ".join(f"{value:g}" for value in TUNING_PARAMETERS[name].values)
    (row,) = [line for line in PAGE.read_text().split("## The bar")[0].splitlines() if line.endswith(f"| {values} |")]

    assert row.startswith(f"| `{name}` |")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_says_how_a_trace_is_scaled(name: str) -> None:
    scenario = SCENARIOS[name]
    played = PAGE.read_text().split("## By whom")[0]
    (row,) = [line for line in played.splitlines() if line.startswith(f"| `{name}` |")]

    for factor in (scenario.rate_scale, scenario.input_scale, scenario.output_scale):
        assert factor == 1 or f"x {factor:g}" in row
    if scenario.days:
        first, last = scenario.first_day + 1, scenario.first_day + scenario.days
        assert f"days {first} to {last}" in row or f"{scenario.days} days" in row


def test_tables_replace_those_of_the_last_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Judged\n\n## Results\n\n### Means\n\n| policy |\n| old |\n")

    policy.report([TABLE], page)

    assert page.read_text().startswith("# Judged\n\n## Results\n\n### Means\n")
    assert "| ours | 99.1 |" in page.read_text()
    assert "old" not in page.read_text()
    assert "99.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--traces", "no-such-folder"], "--traces: no-such-folder does not exist"),
        (["--traces", ".", "--policies", "firsttoken,hpo"], "no policy is called hpo"),
        (["--traces", ".", "--days", "0"], "--days: 0 is below 1"),
        (["--traces", ".", "--page", "no-such-page.md"], "--page: no-such-page.md does not exist"),
        (["--traces", ".", "--seeds", "one"], "--seeds"),
    ],
)
def test_a_bad_argument_is_one_line(given: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        policy.arguments(given)

    assert stopped.value.code == 2
    assert problem in capsys.readouterr().err


def test_a_policy_that_is_not_installed_is_left_out() -> None:
    asked = policy.arguments(["--traces", "."])

    assert "dynamo" in policy.extent_of(asked, {}).policies
    assert "dynamo" not in policy.extent_of(asked, {"dynamo": "is not installed"}).policies


def test_a_quick_run_is_a_part_of_the_whole() -> None:
    extent = policy.extent_of(policy.arguments(["--traces", ".", "--quick"]), {})

    assert extent.quick
    assert extent.days == 2
    assert set(extent.scenarios) < set(SCENARIOS)
