"""`firsttoken operator --check`: one line for each server that the operator will ask; nothing is written or started."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from firsttoken_operator.cli import operator as command
from firsttoken_operator.run import check
from tests.operator.run.test_settings_are_refused_in_one_line import parse, write

VECTOR = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "1"]}]}}
ALL = ("InferenceDeployment", "GPUPool", "BenchmarkProfile")


@contextmanager
def served(*kinds: str) -> Iterator[tuple[str, list[str]]]:
    """URL of a server that is a Prometheus and an API server with these definitions; what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path.partition('?')[0]}")
            document = VECTOR if "query" in self.path else {"resources": [{"kind": kind} for kind in kinds]}
            answer = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def checked(folder: Path, api_server: str, *sources: str) -> int:
    """Exit status of a check."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump({
        "clusters": [{"name": "it", "cluster": {"server": api_server}}], "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}], "current-context": "it",
    }))  # fmt: skip
    file = write(folder, yaml.safe_dump({"prometheus": {f"s{number}": url for number, url in enumerate(sources)}}))
    return command.run(parse("--config", str(file), "--kubeconfig", str(kubeconfig), "--check"))


def test_where_all_answer_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(*ALL) as (url, asked):
        status = checked(tmp_path, url, url)

    assert status == 0
    assert capsys.readouterr().out.splitlines() == [
        "the configuration is usable",
        "API server: serves InferenceDeployment, GPUPool, BenchmarkProfile",
        f'source "s0" ({url}): answers',
    ]
    assert set(asked) <= {"GET /apis/firsttoken.dev/v1alpha1", "GET /api/v1/query", "POST /api/v1/query"}, "no write"


def test_one_that_does_not_answer_is_named_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(*ALL[:1]) as (url, _):
        status = checked(tmp_path, url, url, "http://127.0.0.1:1")
    _, api_server, first, second = capsys.readouterr().out.splitlines()

    assert status == 1
    assert api_server == "API server: custom resource definitions are missing: GPUPool, BenchmarkProfile; install crds/"
    assert first.endswith("answers")
    assert second.startswith('source "s1" (http://127.0.0.1:1): ')
    assert second.endswith("(SourceUnreachable)")


def test_an_api_server_that_does_not_answer_is_a_line_and_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(tmp_path, "http://127.0.0.1:1") == 1
    assert "API server: GET /apis/firsttoken.dev/v1alpha1: " in capsys.readouterr().out


def test_servers_that_take_a_connection_and_say_nothing_cost_no_more_than_the_deadline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "MAXIMUM_DEADLINE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert checked(tmp_path, url, url) == 1
    _, api_server, source = capsys.readouterr().out.splitlines()

    assert api_server == "API server: no answer in time"
    # The source's own deadline, or that of the check: whichever is first.
    assert source.endswith(
        ("no complete answer within 0.3 s (SourceUnreachable)", "no answer in time (SourceUnreachable)")
    )


def test_a_configuration_that_cannot_be_used_asks_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(*ALL) as (url, asked):
        assert checked(tmp_path, url, "no-url") == 2

    assert asked == []
    assert capsys.readouterr().err.count("\n") == 1
