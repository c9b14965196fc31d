"""`firsttoken size --model ... --gpu ...` answers as a YAML file with the same words does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.cli import main
from tests.operator.cli.flags import flags

SPEC = {
    "model": {"name": "llama-3-8b"},
    "traffic": {"inputTokens": 2000, "outputTokens": 200, "peakRequestsPerSecond": "20"},
    "sla": {"timeToFirstToken": {"milliseconds": 300, "percentile": "P95"}},
    "hardware": {"gpus": ["H100-SXM-80GB", "A100-SXM-80GB"]},
    "targetRef": {"name": "llama-3-8b"},
}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["size", "-o", "json", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.slow
def test_the_flags_are_the_fields_of_the_spec(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "same.yaml"
    kind = {"apiVersion": "firsttoken.dev/v1alpha1", "kind": "InferenceDeployment"}
    file.write_text(yaml.safe_dump(kind | {"metadata": {"name": "llama-3-8b"}, "spec": SPEC}))

    said = answer(capsys, *flags("llama-3-8b", "H100-SXM-80GB,A100-SXM-80GB"))

    assert said == answer(capsys, "-f", str(file))
    assert said["replicas"]


def test_the_precision_is_chosen_where_it_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, *flags("llama-3-8b", "H100-SXM-80GB"), "--precision", "FP16")

    assert "FP16" in json.dumps(said["precision"])
    assert "FP16" not in json.dumps(answer(capsys, *flags("llama-3-8b", "H100-SXM-80GB"))["precision"])


def test_a_length_given_to_o_leads_to_the_flag_that_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--model", "llama-3-8b", "--input", "2000", "--output", "200"]) == 2
    assert "200 is no format; the length of an answer is --output-tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            (),
            "--filename: is missing; name a file: -f FILE; or say it in a line: --model NAME --gpu NAME"
            " --input-tokens N --output-tokens N --rps R --ttft MS",
        ),
        (
            flags("llama-3-8b", "L4")[:-2],
            "--ttft: is missing; add it, or give a file: -f FILE",
        ),
        (
            ("--model", "llama-3-8b", "--ttft", "300"),
            "--gpu, --input-tokens, --output-tokens, --rps: are missing; add them, or give a file: -f FILE",
        ),
        (("-f", "x.yaml", "--rps", "2"), "--rps: has no meaning with -f; leave one of them out"),
        (
            (*flags("llama-3-8b", "L4"), "--ttft", "0.3 s"),
            "--ttft: '0.3 s' is not a whole number; write one such as 300",
        ),
        (
            (*flags("llama-3-8b", "L4"), "--rps", "many"),
            "command line: InferenceDeployment/llama-3-8b: spec.traffic.peakRequestsPerSecond: 'many' is not a decimal"
            ' number with at most three decimals; write an integer or a decimal such as "28.54"',
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], line: str
) -> None:
    assert main(["size", *arguments]) == 2
    assert capsys.readouterr().err == f"firsttoken: {line}\n"
