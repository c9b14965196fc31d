from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.peers import PEER, aiconfigurator_errors
from peers.environment import PeerError, ask, environment_of, install, python_of

HERE = Path(__file__).resolve().parents[2] / "benchmarks/peers"
NIM = """\
model,device,n_gpus,tp,pp,precision,engine,engine_version,load_mode,input_len,output_len,concurrency,\
ttft_ms_avg,ttft_ms_p90,ttft_ms_p95,ttft_ms_p99,itl_ms_avg,itl_ms_p95,itl_ms_p99,e2e_ms_avg,e2e_ms_p90,e2e_ms_p95,e2e_ms_p99,\
request_throughput_rps
meta-llama3-8b-instruct,H100-SXM-80GB,1,1,1,fp8,NIM,1,closed,2000,200,1,50,,,,5,,,1000,,,,1
meta-llama3-8b-instruct,H100-SXM-80GB,1,1,1,fp8,NIM,1,closed,2000,200,10,100,,,,10,,,2000,,,,5
meta-llama3-8b-instruct,H100-SXM-80GB,1,1,1,fp8,NIM,1,closed,2000,200,100,100,,,,10,,,20000,,,,1
meta-llama3-8b-instruct,H100-SXM-80GB,1,1,1,fp8,NIM,1,closed,2000,200,250,100,,,,10,,,20000,,,,12.5
"""
STAND_IN = """#!/usr/bin/env python3
import json, sys
asked = json.load(sys.stdin)
def answer(question):
    if question["concurrency"] == 250:
        return None
    rate = 2.0 if question["concurrency"] == 1 else 5.0
    return {"requestsPerSecond": rate, "ttftMilliseconds": 100, "itlMilliseconds": 10, "endToEndMilliseconds": 1500}
json.dump([answer(question) for question in asked], sys.stdout)
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTTOKEN_CACHE", str(tmp_path / "cache"))


def stand_in(program: str) -> None:
    """A peer whose Python is a program of ours."""
    python = environment_of(PEER) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(program)
    python.chmod(0o755)


def test_every_package_of_the_peer_is_pinned_with_its_hash() -> None:
    lock = (HERE / PEER / "requirements.lock").read_text(encoding="utf-8")

    pins = re.findall(r"^([a-z0-9.-]+)==(\S+) \\$", lock, flags=re.MULTILINE)
    assert ("aiconfigurator", "0.12.0") in pins
    assert len(pins) == len(re.findall(r"^[a-z]", lock, flags=re.MULTILINE)) > 20
    assert lock.count("--hash=sha256:") >= len(pins)


def test_a_peer_that_is_not_installed_has_no_figures(tmp_path: Path) -> None:
    assert python_of(PEER) is None
    assert aiconfigurator_errors(tmp_path) is None
    with pytest.raises(PeerError, match="is not installed"):
        ask(PEER, "estimate.py", [])


def test_its_errors_are_those_of_sound_points_that_it_answers(tmp_path: Path) -> None:
    (tmp_path / "nim_dli.csv").write_text(NIM)
    stand_in(STAND_IN)

    errors = aiconfigurator_errors(tmp_path)

    assert errors is not None
    # The third point is an overload window, and the fourth one does not fit: two are left.
    assert (errors["requests/s"].points, errors["requests/s"].median) == (2, 50)
    assert errors["TTFT"].mean == 50
    assert errors["ITL"].median == 50
    assert errors["E2E"].mean == pytest.approx((50 + 25) / 2)
    assert str(errors["E2E"]) == "38/38 %"


def test_a_peer_that_fails_says_so() -> None:
    stand_in("#!/bin/sh\necho the data are broken >&2\nexit 3\n")

    with pytest.raises(PeerError, match="exited with 3: the data are broken"):
        ask(PEER, "estimate.py", [])


def test_another_lock_is_another_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = environment_of(PEER)
    (tmp_path / PEER).mkdir()
    (tmp_path / PEER / "requirements.lock").write_text("another==1\n")

    monkeypatch.setattr("peers.environment._HERE", tmp_path)

    assert environment_of(PEER) != before


def test_an_installation_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho no registry >&2\nexit 1\n")
    uv.chmod(0o755)
    monkeypatch.setattr("peers.environment._uv", lambda: str(uv))

    with pytest.raises(PeerError, match="no registry"):
        install(PEER)
    assert python_of(PEER) is None
    assert list(environment_of(PEER).parent.iterdir()) == []


def test_what_is_installed_is_not_installed_again() -> None:
    stand_in(STAND_IN)

    assert install(PEER) == environment_of(PEER) / "bin" / "python"
    assert ask(PEER, "estimate.py", []) == []
