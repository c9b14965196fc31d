from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from firsttoken_lab.emulate import server, service
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.cli import main
from firsttoken_operator.cli.emulate import configure, replica_spec
from firsttoken_operator.families import VLLM
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation.fleet import KvAdmission
from firsttoken_sizing.workload import Batching, Hardware, Limit, Percentile, Sla, Workload

ROOT = Path(__file__).parents[3]
CALL_CENTER = ROOT / "examples" / "call-center.yaml"


def a_question(**changes):
    values = {
        "model": "meta-llama/Meta-Llama-3-70B-Instruct",
        "workload": Workload(2000, 200, peak_requests_per_second=1, cached_input_percent=10),
        "sla": Sla(time_to_first_token=Limit(2000, Percentile.P95)),
        "hardware": Hardware(("H100-SXM-80GB",), tensor_parallel=4),
        "precision": "FP16",
    }
    return SizingRequest(**{**values, **changes})


def test_the_engine_is_the_configuration_that_the_sizing_chose():
    spec = replica_spec(a_question(), runtime="vllm")

    assert spec.family is VLLM
    assert spec.model_name == "meta-llama/Meta-Llama-3-70B-Instruct"
    assert 0.015 < spec.model.base_seconds < 0.025, "70B on 4 H100: about 20 ms a step"
    assert 1 <= spec.model.max_batch <= 256
    assert spec.settings.kv_cache_tokens >= spec.model.max_batch * 2200
    assert spec.max_model_tokens == 8192
    assert spec.cached_input_percent == 10


def test_vllm_is_emulated_as_it_is_simulated_with_chunks_and_a_cache_that_is_taken_as_tokens_are_made():
    settings = replica_spec(a_question(engine=Engine.VLLM), runtime="vllm", max_prefill_tokens=4000).settings

    assert settings.batching is Batching.CHUNKED_PREFILL
    assert settings.kv_admission is KvAdmission.PAGED
    assert settings.scheduler.tokens_per_step == 4000


def test_a_model_that_is_no_name_of_the_catalog_is_emulated_by_its_own_architecture():
    documents = load_documents(ROOT / "examples" / "own-model.yaml")
    question = sizing_request(documents.deployments[0], documents.pools, documents.benchmarks)

    assert replica_spec(question, runtime="nim").max_model_tokens == question.architecture.max_context_tokens


def test_a_deployment_that_cannot_be_sized_is_refused_with_the_reason(capsys, tmp_path):
    source = CALL_CENTER.read_text().replace("inputTokens: 2000            #", "inputTokens: 9000            #")
    assert source != CALL_CENTER.read_text()
    path = tmp_path / "too-long.yaml"
    path.write_text(source)

    assert main(["emulate", "-f", str(path)]) == 2
    assert "context window" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--phase", "200"], "'200' is not SECOND:RATE, such as 120:200"),
        (["--phase", "x:200"], "'x' is not a number >= 0"),
        (["--rate", "-3"], "'-3' is not a number >= 0"),
        (["--seconds", "0"], "'0' is not above 0"),
        (["--runtime", "tgi"], "invalid choice: 'tgi'"),
    ],
)
def test_a_bad_argument_is_refused_with_the_form_that_is_needed(capsys, arguments, says):
    parser = argparse.ArgumentParser()
    configure(parser)
    with pytest.raises(SystemExit) as refused:
        parser.parse_args(["-f", "x.yaml", *arguments])
    assert refused.value.code == 2
    assert says in capsys.readouterr().err


def test_control_endpoints_are_refused_on_an_address_that_others_can_reach(capsys):
    assert main(["emulate", "-f", str(CALL_CENTER), "--fleet", "--allow-control", "--host", "0.0.0.0"]) == 2
    assert "--allow-control: 0.0.0.0 is not a loopback address; use --host 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runtime", "path", "says"),
    [
        ("nim", "/v1/completions", "--real: a real server beside emulated ones of nim is read as a rollout"),
        ("vllm", "/v2/models/llm/generate_stream", "is not where a vllm streams; end it with /v1/completions"),
        ("triton", "/v1/completions", "is not where a triton streams; end it with /generate_stream"),
    ],
)
def test_a_real_server_is_refused_beside_emulated_ones_of_another_kind(capsys, runtime, path, says):
    real = ["--real", f"http://127.0.0.1:8000{path}", "http://127.0.0.1:8002/metrics"]

    assert main(["emulate", "-f", str(CALL_CENTER), "--fleet", "--runtime", runtime, *real]) == 2
    assert says in capsys.readouterr().err


def test_a_share_of_more_than_a_whole_replica_is_refused(capsys):
    assert main(["emulate", "-f", str(CALL_CENTER), "--fleet", "--real-share", "1.5"]) == 2
    assert "'1.5' is not a share, 0 to 1" in capsys.readouterr().err


def test_a_name_that_is_not_in_the_file_is_refused_with_those_that_are(capsys):
    assert main(["emulate", "-f", str(CALL_CENTER), "--name", "other"]) == 2
    assert "support-rag" in capsys.readouterr().err


@pytest.mark.slow
def test_the_server_says_its_port_serves_and_ends_on_sigterm(tmp_path):
    command = [sys.executable, "-m", "firsttoken_operator.cli", "emulate", "-f", str(CALL_CENTER)]
    with subprocess.Popen(
        [*command, "--port-file", str(tmp_path / "port")], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            end = time.monotonic() + 60
            while not (tmp_path / "port").exists():
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.1)
            url = f"http://127.0.0.1:{int((tmp_path / 'port').read_text())}/v1/models"
            with urllib.request.urlopen(url, timeout=10) as response:
                assert json.load(response)["data"][0]["id"] == "meta-llama/Meta-Llama-3-8B-Instruct"
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "emulation lateness p99" in output


NOWHERE = """\
apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nowhere}}]
users: [{name: nowhere, user: {}}]
current-context: nowhere
"""


@pytest.mark.slow
def test_a_signal_that_comes_while_the_truth_is_written_costs_no_line_of_it(tmp_path):
    (tmp_path / "kubeconfig").write_text(NOWHERE)
    os.mkfifo(tmp_path / "truth")
    arguments = ["--rate", "1500", "--seconds", "1", "--start-when-ready", "0", "--truth", str(tmp_path / "truth")]
    command = [sys.executable, "-m", "firsttoken_operator.cli", "emulate", "--fleet", "-f", str(CALL_CENTER)]
    with subprocess.Popen([*command, "--kubeconfig", str(tmp_path / "kubeconfig"), *arguments]) as process:
        try:
            # It is in the midst of the file from the first byte on: the pipe is too small for all of them.
            with (tmp_path / "truth").open() as pipe:
                first = pipe.readline()
                process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
                requests = [json.loads(line) for line in [first, *pipe]]
            status = process.wait(timeout=20)
        finally:
            process.kill()
    assert len(requests) > 1000
    assert status >= 0, "it ended by itself, not by the signal"


def ask_when_it_serves(port_file):
    end = time.monotonic() + 20
    while not (port_file.exists() and port_file.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.02)
    body = {"model": "meta-llama/Meta-Llama-3-8B-Instruct", "prompt": "hello", "max_tokens": 10}
    request = urllib.request.Request(
        f"http://127.0.0.1:{int(port_file.read_text())}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        response.read()


@pytest.mark.slow
@pytest.mark.parametrize(("speed", "status"), [(0.2, 0), (100_000, 1)], ids=["time enough", "too slow a machine"])
def test_a_run_that_fell_behind_its_own_clock_exits_1_and_says_so(capsys, monkeypatch, tmp_path, speed, status):
    # To a clock this fast every pause takes seconds, the whole request included; to a slow one a busy machine is quick.
    clock = SimpleNamespace(monotonic=lambda: speed * time.monotonic(), time=time.time)
    monkeypatch.setattr(server, "time", clock)
    port_file = tmp_path / "port"
    user = threading.Thread(target=ask_when_it_serves, args=(port_file,))
    user.start()

    try:
        found = main(["emulate", "-f", str(CALL_CENTER), "--seconds", "3", "--port-file", str(port_file)])
    finally:
        user.join()

    captured = capsys.readouterr()
    shown, other = (captured.err, captured.out) if status else (captured.out, captured.err)
    assert found == status
    assert "emulation lateness p99 " in shown
    assert "emulation lateness" not in other
    assert ("above the limit of 500 ms, so this run says nothing; give the machine more CPU" in shown) is (status == 1)


@pytest.mark.parametrize(("lateness", "status"), [(0.2, 0), (0.7, 1)])
def test_a_fleet_that_fell_behind_exits_1_after_its_report(capsys, monkeypatch, lateness, status):
    async def run_fleet(fleet, *_where, **_how):
        truth = fleet.truth
        truth.records, truth.ended, truth.failed, truth.attained = [None] * 1000, 1000, 1, 995
        fleet.lateness.add(lateness, [0.0])

    monkeypatch.setattr(service, "run_fleet", run_fleet)

    assert main(["emulate", "-f", str(CALL_CENTER), "--fleet", "--rate", "1", "--seconds", "1"]) == status

    captured = capsys.readouterr()
    assert "1000 requests, 1 failed, 99.50 % inside the SLA" in captured.out
    assert ("emulation lateness p99 700 ms: above the limit of 500 ms" in captured.err) is (status == 1)
