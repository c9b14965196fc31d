"""`firsttoken traffic`: the worked examples as a user types them."""

from __future__ import annotations

import json

import pytest
import yaml

from firsttoken_operator.api.convert import workload
from firsttoken_operator.api.traffic import Traffic
from firsttoken_operator.cli import main

CALL_CENTER = [
    "traffic",
    "--calls-per-year=30000000",
    "--minutes-per-call=10",
    "--requests-per-minute=3",
    "--peak-factor=7",
]
LENGTHS = ["--input-tokens=2000", "--output-tokens=200"]


def test_the_call_center_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL_CENTER, *LENGTHS]) == 0

    rows = {line[:14].strip(): line[14:].split()[0] for line in capsys.readouterr().out.splitlines()}
    assert rows["average"] == "28.54"
    assert rows["peak"] == "199.77"
    assert rows["input"] == "2,000"


def test_the_working_day_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--average-requests-per-second=70.7", "--hours-per-day=8", "--requests-per-user=3", "-o", "json"]

    assert main(["traffic", *arguments, *LENGTHS]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["peakRequestsPerSecond"] is None
    assert answer["perDay"]["users"] == pytest.approx(678_720)
    assert answer["perDay"]["outputTokens"] == pytest.approx(407_232_000)


def test_the_yaml_is_a_valid_spec_traffic_that_never_declares_too_little(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL_CENTER, "--input-words=1500", "--output-words=150", "-o", "yaml"]) == 0

    spec = yaml.safe_load(capsys.readouterr().out)["traffic"]
    assert spec == {
        "inputTokens": 2000,
        "outputTokens": 200,
        "averageRequestsPerSecond": "28.539",
        "peakRequestsPerSecond": "199.772",
    }
    assert workload(Traffic.model_validate(spec)).peak_requests_per_second == pytest.approx(199.772)


def test_people_a_day_give_the_average(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--daily-active-users=678720", "--requests-per-user=3", "--hours-per-day=8", "--peak-percentile=95"]

    assert main(["traffic", *arguments, "-o", "json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["averageRequestsPerSecond"] == pytest.approx(70.7)
    assert answer["peakRequestsPerSecond"] == 85


RAG_CHAT = [
    "--question-words=45",
    "--system-prompt-tokens=400",
    "--document-tokens=300",
    "--documents=5",
    "--turns=5",
    "--output-tokens=200",
]


def test_a_prompt_by_its_parts_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL_CENTER, *RAG_CHAT, "--prefix-caching=conversation"]) == 0

    rows = {line[:15].strip(): line[15:].split()[0] for line in capsys.readouterr().out.splitlines()}
    assert rows["input"] == "2,480"
    assert rows["system prompt"] == "400"
    assert rows["history"] == "520"
    assert rows["documents"] == "1,500"
    assert rows["question"] == "60"
    assert rows["cached"] == "37"


def test_a_prompt_by_its_parts_is_a_valid_spec_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL_CENTER, *RAG_CHAT, "--prefix-caching=system-prompt", "-o", "yaml"]) == 0

    spec = yaml.safe_load(capsys.readouterr().out)["traffic"]
    assert spec["inputTokens"] == 2480
    assert spec["cachedInputPercent"] == 16
    assert workload(Traffic.model_validate(spec)).cached_input_percent == 16


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--documents=3"], "--question-tokens: is missing beside --documents"),
        (["--prefix-caching=system-prompt"], "--question-tokens: is missing beside --prefix-caching"),
        (["--question-tokens=10", "--documents=3"], "--documents: and --document-tokens go together"),
        (["--question-tokens=10", "--input-tokens=5"], "--question-tokens: is a part of the input"),
        (["--question-tokens=10", "--turns=4"], "output tokens: are needed for the history"),
        (["--question-tokens=10", "--turns=0", "--output-tokens=5"], "turns: 0 is not a finite number of at least 1"),
        (["--question-tokens=10", "--question-words=5"], "not allowed with argument"),
        (["--question-tokens=nan"], "question tokens: nan is not a finite number above 0"),
    ],
)
def test_parts_of_a_prompt_that_make_no_sense_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main([*CALL_CENTER, *arguments]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "one of the arguments --calls-per-year --daily-active-users --average-requests-per-second is required"),
        (["--calls-per-year=1"], "--requests-per-call: a call's requests are not clear"),
        (["--calls-per-year=1", "--minutes-per-call=2"], "give --requests-per-call, or both"),
        (["--calls-per-year=1", "--requests-per-call=2", "--minutes-per-call=2"], "give --requests-per-call, or both"),
        (["--daily-active-users=5"], "--requests-per-user: is missing"),
        (["--daily-active-users=5", "--requests-per-call=5"], "--requests-per-call: is about calls"),
        (["--average-requests-per-second=-1"], "requests per second: -1 is not a finite number above 0"),
        (["--average-requests-per-second=nan", "--peak-factor=2"], "nan is not a finite number above 0"),
        (["--average-requests-per-second=5", "--peak-factor=0.5"], "puts the peak below the average"),
        (["--average-requests-per-second=5", "--peak-percentile=100"], "100 is not in [50, 100)"),
        (["--average-requests-per-second=5", "--peak-requests-per-second=4"], "4 is not at least the average 5"),
        (["--average-requests-per-second=5", "--peak-factor=2", "--peak-percentile=95"], "not allowed with argument"),
        (["--average-requests-per-second=5", "--input-tokens=0"], "input tokens: 0 is not a finite number above 0"),
        (["--average-requests-per-second=5", "--hours-per-day=25"], "hours per day: 25 is not in (0, 24]"),
        (["--average-requests-per-second=5", "-o", "yaml"], "--peak-factor: spec.traffic is not complete without it"),
        (
            ["--average-requests-per-second=1e30", "--peak-factor=2", *LENGTHS, "-o", "yaml"],
            "peakRequestsPerSecond: 2e+30 is above 1000000",
        ),
    ],
)
def test_numbers_that_make_no_sense_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["traffic", *arguments]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
