"""AIPerf against a real Triton: what it measures is imported, and traffic is sized by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.aiperf.environment import aiperf
from tests.engines.client import shown
from tests.engines.measured import assert_sized_by, imported
from tools.engines import Triton, missing

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=f"no Triton on this machine: {missing()}"),
]

PROMPT_TOKENS, OUTPUT_TOKENS, REQUESTS, WARM_UP = 50, 100, 5, 1
MILLISECONDS_A_WORD = 20
TEMPLATE = {
    "payload_template": '{"text_input": {{ text|tojson }}, "max_tokens": {{ max_tokens }}}',
    "response_field": "text_output",
}
"""Triton's generate extension, as docs/size-offline.md shows it: AIPerf has no endpoint type of that name."""
OPTIONS = {
    "--model": "chat", "--endpoint-type": "template", "--endpoint": "/v2/models/chat/generate_stream",
    "--extra-inputs": json.dumps(TEMPLATE), "--isl": PROMPT_TOKENS, "--osl": OUTPUT_TOKENS, "--concurrency": 1,
    "--request-count": REQUESTS, "--warmup-request-count": WARM_UP, "--num-dataset-entries": REQUESTS,
}  # fmt: skip


def test_its_file_is_imported_and_the_profile_sized(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Triton(Path(__file__).parent / "streaming", tmp_path / "triton") as server:
        report = aiperf().profile(tmp_path / "aiperf", OPTIONS | {"--url": server.url}, 600)
        answered = shown(f"http://{server.metrics_address}/metrics", "nv_inference_request_success")

    measured = json.loads(report.read_text())
    assert answered == REQUESTS + WARM_UP
    assert measured["is_complete"]
    assert measured["output_sequence_length"]["avg"] == OUTPUT_TOKENS

    profile = imported(report, "TensorRT-LLM", "2.51")
    (point,) = profile["spec"]["points"]
    assert (profile["spec"]["inputTokens"], profile["spec"]["outputTokens"]) == (PROMPT_TOKENS, OUTPUT_TOKENS)
    assert point["ttftMilliseconds"]["mean"] == pytest.approx(measured["time_to_first_token"]["avg"], abs=1)
    # The model sleeps for each word; what a busy machine adds to that is not its doing.
    assert MILLISECONDS_A_WORD <= point["itlMilliseconds"]["mean"] < 4 * MILLISECONDS_A_WORD

    assert_sized_by(profile, "TensorRT-LLM", tmp_path, capsys)
