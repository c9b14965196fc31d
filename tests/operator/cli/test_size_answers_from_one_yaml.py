from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.cli import main

ROOT = Path(__file__).resolve().parents[3]
CALL_CENTER = ROOT / "examples/call-center.yaml"


def documents() -> list[dict[str, object]]:
    return list(yaml.safe_load_all(CALL_CENTER.read_text(encoding="utf-8")))


def with_sla(sla: dict[str, object]) -> list[dict[str, object]]:
    """The call center with another SLA."""
    changed = documents()
    for document in changed:
        if document["kind"] == "InferenceDeployment":
            assert isinstance(document["spec"], dict)
            document["spec"]["sla"] = sla
    return changed


def sized(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["size", "-f", str(CALL_CENTER), "-o", "json", *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("arguments", [(), ("--percentile", "Mean")], ids=["as declared", "mean"])
def test_the_call_center_takes_39_replicas(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    document = sized(capsys, *arguments)

    assert document["tensorParallel"] == 1
    assert document["concurrencyPerReplica"] == 10
    assert document["requestsPerSecondPerServer"] == pytest.approx(41.56, abs=0.01)
    assert document["replicas"] == 39
    assert document["servers"] == 5
    assert document["basis"] == "Measured"


def test_in_poisson_it_takes_about_16_and_says_on_what_basis(capsys: pytest.CaptureFixture[str]) -> None:
    document = sized(capsys, "--arrivals", "Poisson")

    assert document["replicas"] in (15, 16, 17)
    assert document["basis"] == "Fitted"
    assert isinstance(document["otherReading"], dict)
    assert document["otherReading"]["replicas"] == 39


def test_standard_input_and_yaml_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CALL_CENTER.read_text(encoding="utf-8")))

    assert main(["size", "-f", "-", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["replicas"] == 39


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "-f", str(CALL_CENTER)]) == 0
    out = capsys.readouterr().out
    assert "ClosedLoop (asked)" in out
    assert "41.56" in out


def test_another_percentile_is_the_one_that_the_table_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    arguments = ("--percentile", "P99", "--arrivals", "Poisson")
    ttft = sized(capsys, *arguments)["ttftMilliseconds"]
    assert isinstance(ttft, dict)

    assert main(["size", "-f", str(CALL_CENTER), *arguments]) == 0
    out = capsys.readouterr().out
    assert "TTFT ms mean / P99" in out
    assert f"{ttft['mean']:.4g} / {ttft['p99']:.4g}" in out
    assert "…" not in out


def test_an_offline_job_has_one_reading(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "offline.yaml"
    file.write_text(yaml.safe_dump_all(with_sla({"mode": "Offline"})), encoding="utf-8")

    assert main(["size", "-f", str(file), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["arrivals"], document["replicas"]) == ("ClosedLoop", 15)
    assert "one reading only" in document["otherReading"]


def test_a_sequential_sla_is_bound_by_the_whole_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "sequential.yaml"
    sla = {"mode": "Sequential", "endToEnd": {"milliseconds": 5000, "percentile": "Mean"}}
    file.write_text(yaml.safe_dump_all(with_sla(sla)), encoding="utf-8")

    assert main(["size", "-f", str(file), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["bindingConstraint"], document["concurrencyPerReplica"]) == ("E2E Mean", 50)


@pytest.mark.parametrize(
    ("sla", "bound_by"),
    [
        ({"interTokenLatency": {"milliseconds": 12, "percentile": "Mean"}}, "ITL Mean"),
        ({"endToEnd": {"milliseconds": 2000, "percentile": "Mean"}}, "E2E Mean"),
    ],
    ids=["inter-token latency alone", "the end alone"],
)
def test_one_limit_of_any_kind_is_enough_for_streaming(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sla: dict[str, object], bound_by: str
) -> None:
    file = tmp_path / "one-limit.yaml"
    file.write_text(yaml.safe_dump_all(with_sla(sla)), encoding="utf-8")

    assert main(["size", "-f", str(file), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["bindingConstraint"], document["basis"]) == (bound_by, "Measured")


@pytest.mark.parametrize(
    ("sla", "line"),
    [
        (
            {"mode": "Streaming"},
            "spec.sla.timeToFirstToken: mode Streaming needs timeToFirstToken or",
        ),
        ({"mode": "Offline", "endToEnd": {"milliseconds": 9000}}, "spec.sla.endToEnd: mode Offline has no endToEnd"),
        ({"mode": "Sequential"}, "spec.sla.endToEnd: mode Sequential needs endToEnd"),
    ],
    ids=["Streaming without any limit", "a limit that Offline has not", "Sequential without its limit"],
)
def test_a_mode_and_its_limits_that_do_not_go_together_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sla: dict[str, object], line: str
) -> None:
    file = tmp_path / "mode.yaml"
    file.write_text(yaml.safe_dump_all(with_sla(sla)), encoding="utf-8")

    assert main(["size", "-f", str(file)]) == 2
    (shown,) = capsys.readouterr().err.splitlines()
    assert line in shown


def test_benchmarks_may_come_from_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    rest = [d for d in documents() if d["kind"] != "BenchmarkProfile"]
    profiles = [d for d in documents() if d["kind"] == "BenchmarkProfile"]
    (tmp_path / "deployment.yaml").write_text(yaml.safe_dump_all(rest), encoding="utf-8")
    (folder / "measured.yaml").write_text(yaml.safe_dump_all(profiles), encoding="utf-8")

    for arguments, basis in (((), "Fitted"), (("--benchmarks", str(folder)), "Measured")):
        assert main(["size", "-f", str(tmp_path / "deployment.yaml"), "-o", "json", *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["basis"] == basis


def test_several_deployments_give_a_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    all_documents = documents()
    deployment = next(d for d in all_documents if d["kind"] == "InferenceDeployment")
    second = {**deployment, "metadata": {"name": "second", "namespace": "call-center"}}
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump_all([*all_documents, second]), encoding="utf-8")

    assert main(["size", "-f", str(file), "-o", "json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert [a["name"] for a in answers] == ["support-rag", "second"]
    assert [a["replicas"] for a in answers] == [39, 39]


def test_an_impossible_limit_exits_3_and_says_what_would_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "tight.yaml"
    file.write_text(CALL_CENTER.read_text(encoding="utf-8").replace("milliseconds: 300", "milliseconds: 10"))

    assert main(["size", "-f", str(file), "-o", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["feasible"] is False
    assert (document["replicas"], document["basis"], document["errorBandPercent"]) == (None, None, None)
    assert "raise the limit to at least" in document["reason"]


@pytest.mark.parametrize(
    ("replace", "expected"),
    [
        (("H100-SXM-80GB", "ABACUS-1"), "ABACUS-1"),
        (("kind: InferenceDeployment", "kind: Deployment"), "InferenceDeployment"),
    ],
    ids=["unknown GPU", "no deployment"],
)
def test_bad_input_exits_2_with_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, replace: tuple[str, str], expected: str
) -> None:
    file = tmp_path / "bad.yaml"
    text = CALL_CENTER.read_text(encoding="utf-8").replace(*replace)
    file.write_text(text.replace("firsttoken.dev/v1alpha1\nkind: Deployment", "apps/v1\nkind: Deployment"))

    assert main(["size", "-f", str(file)]) == 2
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1
    assert expected in err


def test_a_missing_file_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "-f", "nowhere.yaml"]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err


def test_plot_writes_a_page_beside_the_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "size.html"

    document = sized(capsys, "--plot", str(file))

    page = file.read_text(encoding="utf-8")
    assert document["replicas"] == 39
    for reading in ("ClosedLoop", "Poisson"):
        assert f"{reading} P95 as sized" in page


@pytest.mark.slow
def test_plot_writes_an_image_where_the_name_says_so(tmp_path: Path) -> None:
    file = tmp_path / "size.png"

    assert main(["size", "-f", str(CALL_CENTER), "-o", "json", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["size.svg", "size"])
def test_another_format_than_html_and_png_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    assert main(["size", "-f", str(CALL_CENTER), "--plot", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    line = f"firsttoken: --plot: {name}: a picture is HTML or PNG; name a file FILE.html or FILE.png\n"
    assert captured.err == line
    assert (captured.out, list(tmp_path.iterdir())) == ("", [])


@pytest.mark.parametrize(
    ("name", "package", "renderer"),
    [
        ("size.html", "plotly.graph_objects", "plotly_page"),
        ("size.png", "matplotlib.figure", "matplotlib_png"),
    ],
)
def test_a_plot_without_its_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    package: str,
    renderer: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"firsttoken_sizing.report.{renderer}", raising=False)

    assert main(["size", "-f", str(CALL_CENTER), "--plot", str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "firsttoken[plots]" in line


def test_a_plot_that_cannot_be_written_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["size", "-f", str(CALL_CENTER), "--plot", str(tmp_path / "none" / "size.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("firsttoken: --plot: ")
    assert "No such file or directory" in line


def test_bounds_below_the_size_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    changed = documents()
    for document in changed:
        spec = document.get("spec")
        assert isinstance(spec, dict) or spec is None
        if document["kind"] == "InferenceDeployment" and spec is not None:
            spec["scaling"]["maxReplicas"] = 38
        if document["kind"] == "GPUPool" and spec is not None:
            spec["peakGPUs"] = 38
            spec["location"] = "OnPrem"
            del spec["baseGPUs"], spec["burstGPUs"]
    file = tmp_path / "bounded.yaml"
    file.write_text(yaml.safe_dump_all(changed), encoding="utf-8")

    assert main(["size", "-f", str(file), "-o", "json"]) == 0

    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [w.partition(":")[0] for w in warnings] == ["PrecisionAccuracy", "MaxReplicasTooLow", "PoolTooSmall"]
    assert "scaling.maxReplicas is 38" in warnings[1]
    assert "GPUPool h100 has peakGPUs 38" in warnings[2]


def with_schedule(**scaling: int) -> str:
    """The call center with a busy weekend, as YAML."""
    changed = documents()
    for document in changed:
        if document["kind"] == "InferenceDeployment":
            spec = document["spec"]
            assert isinstance(spec, dict)
            spec["scaling"] |= scaling
            spec["traffic"]["schedule"] = [
                {"days": ["Sat", "Sun"], "start": "10:00", "end": "22:00", "peakRequestsPerSecond": "300"},
                {"timeZone": "Europe/Berlin", "start": "22:00", "end": "06:00", "peakRequestsPerSecond": "10"},
            ]
    return yaml.safe_dump_all(changed)


def test_the_windows_of_a_schedule_are_sized_beside_the_declared_peak(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(with_schedule()))

    assert main(["size", "-f", "-", "-o", "json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert (document["replicas"], document["peakRequestsPerSecond"]) == (39, 200)
    # One replica carries 5.1954 requests/s.
    assert document["schedule"] == [
        {
            "timeZone": "UTC", "days": ["Sat", "Sun"], "start": "10:00", "end": "22:00",
            "peakRequestsPerSecond": 300, "replicas": 58, "gpus": 58,
        },
        {
            "timeZone": "Europe/Berlin", "days": [], "start": "22:00", "end": "06:00",
            "peakRequestsPerSecond": 10, "replicas": 2, "gpus": 2,
        },
    ]  # fmt: skip


def test_the_table_has_a_line_for_every_window(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(with_schedule()))
    monkeypatch.setenv("COLUMNS", "120")

    assert main(["size", "-f", "-"]) == 0

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Schedule: ")]
    assert lines == [
        "Schedule: 58 replicas (58 GPUs) for 300 requests/s, Sat, Sun from 10:00 to 22:00 (UTC)",
        "Schedule: 2 replicas (2 GPUs) for 10 requests/s, every day from 22:00 to 06:00 (Europe/Berlin)",
    ]


def test_a_bound_below_a_window_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(with_schedule(maxReplicas=57)))

    assert main(["size", "-f", "-", "-o", "json"]) == 0

    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [w for w in warnings if w.startswith("MaxReplicasTooLow")] == [
        "MaxReplicasTooLow: the largest peak of traffic.schedule needs 58 replicas, scaling.maxReplicas is 57;"
        " raise it or declare a lower peak"
    ]


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_the_answer_goes_to_a_file_where_one_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, output: str
) -> None:
    file = tmp_path / "answer"
    arguments = ["size", "-f", str(CALL_CENTER), "-o", output]
    assert main(arguments) == 0
    shown = capsys.readouterr().out

    assert main([*arguments, "--out", str(file)]) == 0
    assert (file.read_text(), capsys.readouterr().out) == (shown, "")


def test_files_may_be_several(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = []
    for document in documents():
        names += ["-f", str(tmp_path / f"{document['kind']}.yaml")]
        Path(names[-1]).write_text(yaml.safe_dump(document))

    assert main(["size", "-o", "json", *names]) == 0
    assert json.loads(capsys.readouterr().out) == sized(capsys)


def test_the_same_object_in_two_files_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "-f", str(CALL_CENTER), "-f", str(CALL_CENTER)]) == 2
    assert "is also in" in capsys.readouterr().err


def test_a_url_is_refused_with_the_way_to_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "-f", "https://example.com/x.yaml"]) == 2
    assert capsys.readouterr().err == (
        "firsttoken: --filename: https://example.com/x.yaml is a URL;"
        " pipe it in: curl -fsSL https://example.com/x.yaml | firsttoken ... -f -\n"
    )


@pytest.mark.parametrize("word", ["Poisson", "poisson", "POISSON"])
def test_words_may_be_written_small(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert sized(capsys, "--arrivals", word)["arrivals"] == "Poisson"


def test_a_word_that_is_none_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "-f", str(CALL_CENTER), "--arrivals", "often"]) == 2
    assert "argument --arrivals: 'often' is not one of Poisson, ClosedLoop" in capsys.readouterr().err
