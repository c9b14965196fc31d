"""`firsttoken models` and `firsttoken gpus` list every name that can be declared, and a wrong name leads there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firsttoken_operator.cli import main
from firsttoken_sizing.catalog import gpus, models
from tests.operator.cli.flags import flags


@pytest.mark.parametrize(("command", "catalog"), [("models", models()), ("gpus", gpus())])
def test_every_name_is_a_line(capsys: pytest.CaptureFixture[str], command: str, catalog: tuple[object, ...]) -> None:
    names = [entry.name for entry in catalog]  # type: ignore[attr-defined]

    assert main([command]) == 0
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[1:]] == names
    assert main([command, "-o", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == names


def test_a_part_of_a_name_or_alias_chooses(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"

    assert main(["gpus", "h100-80", "-o", "json", "--out", str(file)]) == 0
    assert [row["name"] for row in json.loads(file.read_text())] == ["H100-SXM-80GB"]


def test_what_no_name_contains_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "zzz"]) == 2
    assert capsys.readouterr().err == "firsttoken: TEXT: no name contains 'zzz'; see all: firsttoken models\n"


@pytest.mark.parametrize(
    ("command", "field", "wrong"), [("models", "model.name", "zzzzzzzz"), ("gpus", "hardware.gpus", "TPU-v5")]
)
def test_a_wrong_name_leads_to_the_list(
    capsys: pytest.CaptureFixture[str], command: str, field: str, wrong: str
) -> None:
    names = {"model.name": "llama-3-8b", "hardware.gpus": "H100-SXM-80GB"} | {field: wrong}

    assert main(["size", *flags(names["model.name"], names["hardware.gpus"])]) == 2
    assert f"`firsttoken {command}` lists the known names" in capsys.readouterr().err
