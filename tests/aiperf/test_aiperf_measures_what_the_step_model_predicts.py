"""The real load generator against the emulated server: what it reports is what the sizing's closed loop says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import predict
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step import step_model
from tests.aiperf.environment import AIPerf, aiperf
from tools.cluster.waiting import wait_until

MODEL = "meta-llama/Meta-Llama-3-70B-Instruct"
YAML = Path(__file__).with_name("llama-3-70b-tp4.yaml")
CLIENT_INPUT_TOKENS, OUTPUT_TOKENS = 2360, 200
"""Tokens of the client's tokenizer (o200k_base), which counts about 1.18 a word of the prompts it makes: near 2000 for
the server, which counts words."""
SECONDS = 60


@pytest.fixture(scope="module")
def client(pytestconfig: pytest.Config) -> AIPerf:
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():  # a minute of installing must not look like a test that hangs
        return aiperf()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port_file = tmp_path_factory.mktemp("server") / "port"
    command = [sys.executable, "-m", "firsttoken_operator.cli", "emulate", "-f", YAML, "--port-file", port_file]
    process = subprocess.Popen(command)
    try:
        wait_until(port_file.exists, 60, "the emulated server's port")
        yield f"http://127.0.0.1:{int(port_file.read_text())}"
        process.terminate()
        assert process.wait(20) == 0, "the server kept up with its own clock"
    finally:
        process.kill()
        process.wait()


def measure(client: AIPerf, url: str, concurrency: int, folder: Path) -> dict[str, Any]:
    """Run AIPerf for a minute after a warm-up of two rounds; returns its JSON report."""
    options = {
        "--model": MODEL,
        "--url": url,
        "--endpoint-type": "chat",
        "--isl": CLIENT_INPUT_TOKENS,
        "--osl": OUTPUT_TOKENS,
        "--extra-inputs": "ignore_eos:true",
        "--concurrency": concurrency,
        "--warmup-request-count": 2 * concurrency,
        "--benchmark-duration": SECONDS,
        "--num-dataset-entries": 20,
    }
    report: dict[str, Any] = json.loads(client.profile(folder, options, SECONDS + 150).read_text())
    return report


@pytest.mark.slow
@pytest.mark.timeout(1200)  # the first run installs 840 MB
@pytest.mark.parametrize("concurrency", [1, 4])
def test_ttft_itl_and_throughput_are_within_ten_percent_of_the_closed_loop(client, url, tmp_path, concurrency):
    began = time.monotonic()
    report = measure(client, url, concurrency, tmp_path)
    elapsed = time.monotonic() - began

    assert elapsed > SECONDS
    assert report["is_complete"]
    assert not report.get("error_summary")
    assert report["input_sequence_length"]["avg"] == pytest.approx(CLIENT_INPUT_TOKENS, rel=0.01)
    # NB: the client derives ITL from its own count of output tokens, so every word must be one token for it too.
    for counted_by in ("output_sequence_length", "usage_completion_tokens"):
        assert {report[counted_by][edge] for edge in ("min", "max")} == {OUTPUT_TOKENS}, counted_by
    # What the server computed is what the model is asked about, not what the client counted.
    input_tokens = report["usage_prompt_tokens"]["avg"]
    assert input_tokens == pytest.approx(2000, rel=0.05)

    key = ConfigurationKey(MODEL, "H100-SXM-80GB", "FP16", 4)
    model, _ = step_model(key, (), max_batch=256)
    expected = predict(model, Lengths(input_tokens, input_tokens, OUTPUT_TOKENS), concurrency, Scheduler())
    predicted = {
        "time_to_first_token": expected.ttft.mean,
        "inter_token_latency": expected.itl.mean,
        "request_throughput": expected.requests_per_second,
    }
    measured = {name: report[name]["avg"] for name in predicted}
    print(f"concurrency {concurrency}, {input_tokens:.0f} prompt tokens: measured {measured}, predicted {predicted}")
    assert measured == pytest.approx(predicted, rel=0.1)
