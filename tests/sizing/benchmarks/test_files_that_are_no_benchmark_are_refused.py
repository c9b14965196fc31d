"""Whatever file is named: a profile, or one error that names the file and the reason. Never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firsttoken_sizing.benchmarks import FORMATS, Declared, detect, read_benchmarks, read_document
from firsttoken_sizing.errors import SizingError, UnreadableBenchmark

FIXTURES = Path(__file__).parents[2] / "fixtures" / "benchmarks"

BAD_FILES = {
    "an empty file": (b"", "is empty; give the JSON or CSV that the tool wrote"),
    "only blank lines": (b"\n \n", "is empty"),
    "no text": (b"\xff\xfe\x00\x01", "is not text in UTF-8; give the JSON or CSV"),
    "broken JSON": (b'{"a": 1', "is not JSON: .* in line 1; give the JSON or CSV that the tool wrote, whole"),
    "JSON and something after it": (b'{"a": 1}\n]', "is not JSON: Extra data in line 2; give the JSON"),
    "AIPerf's record of every request": (
        b'{"metadata": {}, "metrics": {}}\n\n{"metadata": {}, "metrics": {}}\n',
        r"is JSON lines, .*import the \.json .*profile_export_aiperf\.json",
    ),
    "a JSON list": (b"[1, 2]", "is a JSON list, not an object; give the JSON"),
    "JSON nested without end": (b"[" * 100_000, "nested too deeply"),
    "another JSON object": (b'{"aiperf_version": "0.13.0"}', "not a benchmark format that can be imported"),
    "a header without rows": (
        b"task_inputs-model,task_inputs-GPU\n",
        "has no rows; give the CSV with the measured runs",
    ),
    "another table": (b"a,b\n1,2\n", "DLI flattened CSV; GenAI-Perf JSON"),
    "GenAI-Perf's CSV": (b"Metric,avg,min\nTime To First Token (ms),1,1\n", "import profile_export_genai_perf.json"),
    "an AIPerf sweep's CSV": (
        b"concurrency,request_throughput_mean\n1,6.2\n",
        "import profile_export_aiperf_sweep.json",
    ),
    "guidellm's CSV": (b"Run Info,Run Info\nRun ID,Run Index\n,\n", "import the benchmarks.json"),
    "an integer without end": (b'{"a": 1' + b"0" * 5000 + b"}", "Exceeds the limit"),
    "an open quote": (b'a,b\n"1,2\n', "is not CSV"),
}


@pytest.mark.parametrize(("content", "problem"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_refused_is(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UnreadableBenchmark, match=problem) as caught:
        read_benchmarks(path)

    assert caught.value.file == str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableBenchmark, match=r"nowhere\.json: cannot be read: No such file"):
        read_benchmarks(tmp_path / "nowhere.json")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableBenchmark, match="cannot be read"):
        read_benchmarks(tmp_path)


def test_every_format_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "size-offline.md").read_text()

    assert [known.name for known in FORMATS if f"| {known.name} |" not in page] == []


def test_files_of_many_names_fit_into_the_source_of_a_profile(tmp_path: Path) -> None:
    paths = [tmp_path / f"{rate}.0qps-Llama-3.1-8B-Instruct-{'x' * 40}.json" for rate in range(1, 13)]
    for path in paths:
        path.write_text((FIXTURES / "vllm-bench-rate6.json").read_text())
    (profile,) = read_benchmarks(paths, Declared(precision="FP8")).profiles

    assert profile.source.startswith(f"vLLM bench serve {paths[0].name}, ")
    assert profile.source.endswith(" and 7 more")
    assert len(profile.source) <= 512


def test_each_format_recognizes_its_own_files_and_no_other() -> None:
    found = {path.name: detect(read_document(path)).name for path in sorted(FIXTURES.glob("*.[cj]s*"))}

    assert set(found.values()) == {known.name for known in FORMATS}
    for path in FIXTURES.glob("*.[cj]s*"):
        document = read_document(path)
        assert sum(known.recognizes(document) for known in FORMATS) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_damage_anywhere_never_crashes_the_import(tmp_path: Path, data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(sorted(FIXTURES.glob("*.[cj]s*"))))
    content = bytearray(original.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(0, 30))
    content[start : start + length] = data.draw(st.binary(max_size=12))
    path = tmp_path / "damaged"
    path.write_bytes(content)
    declared = Declared(model="llama-3.1-8b", gpu="L40S", precision="BF16", tensor_parallel=1)

    try:
        result = read_benchmarks(path, declared)
    except SizingError:
        return
    assert all(point.requests_per_second > 0 for profile in result.profiles for point in profile.points)
