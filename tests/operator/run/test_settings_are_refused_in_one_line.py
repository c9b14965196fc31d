"""The operator's configuration: what it takes, what the time scale divides, and how it refuses."""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.api.convert import scaling_policy
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli import operator as command
from firsttoken_operator.domain.target_kinds import NAMED
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.run.measuring import source_configs
from firsttoken_operator.run.settings import SettingsError, load
from tests.operator.act.objects import infd

GATEWAY = "prometheus: {{default: {{url: 'http://p', gateway: {{{}}}}}}}"


def write(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(arguments)


def test_the_defaults_measure_over_four_scrapes() -> None:
    timing = load(None, {}).timing

    assert (timing.tick_seconds, timing.scrape_interval_seconds, timing.rate_window_seconds) == (15, 15, 60)


def test_a_slow_scrape_makes_a_long_window() -> None:
    assert load(None, {"scrapeIntervalSeconds": 30}).timing.rate_window_seconds == 120


def test_the_time_scale_divides_the_control_loop_and_no_request() -> None:
    settings = load(None, {"timeScale": 10})
    timing = settings.timing
    document = infd(scaling={"scaleDownStabilizationSeconds": 300, "metricsLossGraceSeconds": 900})
    document["metadata"]["uid"] = "r-1"
    resource = InferenceDeployment.model_validate(document)
    policy = scaling_policy(resource, None, time_scale=timing.scale)

    assert (timing.tick_seconds, timing.scrape_interval_seconds, timing.rate_window_seconds) == (1.5, 1.5, 6)
    assert (timing.scale_down_limit_window_seconds, timing.foreign_write_window_seconds) == (60, 60)
    assert (policy.stabilization_seconds, policy.metrics_loss_grace_seconds, policy.backlog_drain_seconds) == (
        30, 90, 6,
    )  # fmt: skip
    assert resource.spec.sla.time_to_first_token is not None
    assert resource.spec.sla.time_to_first_token.milliseconds == 300


def test_kinds_that_are_scaled_are_named_or_described() -> None:
    described = {"apiVersion": "example.com/v1", "kind": "Server", "plural": "servers", "replicasPath": ".spec.size"}
    named, own = load(None, {"scaleKinds": ["LeaderWorkerSet", described]}).target_kinds

    assert named == NAMED["LeaderWorkerSet"]
    assert (own.kind, own.api_version, own.plural) == ("Server", "example.com/v1", "servers")
    assert (own.replicas, own.selector, own.is_one_unset) == (("spec", "size"), ("status", "selector"), False)


@pytest.mark.parametrize(
    ("kinds", "complaint"),
    [
        (["RayService"], "'RayService' is not known by name; use StatefulSet, LeaderWorkerSet"),
        (["StatefulSet", "StatefulSet"], "StatefulSet is there already"),
        ([{"apiVersion": "x.io/v1", "kind": "Pod", "plural": "pods"}], "Pod is there already"),
        (
            [{"apiVersion": "x.io/v1", "kind": "NIMService", "plural": "nims"}],
            "NIMService is known; give its name alone",
        ),
        ([{"apiVersion": "apps/v1", "kind": "Own", "plural": "deployments"}], "deployments.apps is there already"),
        (
            ["StatefulSet", {"apiVersion": "apps/v1beta1", "kind": "Own", "plural": "statefulsets"}],
            "statefulsets.apps is there already",
        ),
    ],
)
def test_a_kind_that_cannot_be_scaled_is_refused(kinds: list[object], complaint: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(complaint)):
        load(None, {"scaleKinds": kinds})


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "tickSeconds: 30\nport: 9000\n")
    settings = load(file, command.overrides(parse("--tick-seconds", "5", "--prometheus-url", "http://p:9090")))

    assert (settings.tick_seconds, settings.port) == (5, 9000)
    assert settings.prometheus["default"].url == "http://p:9090"


def test_an_answer_is_at_most_sixteen_mebibytes_unless_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("prometheus: {default: http://a:9090, large: {url: http://b:9090, responseLimitMebibytes: 64}}")

    configs = source_configs(load(file, {}))

    assert {name: config.byte_cap for name, config in configs.items()} == {"default": 16 << 20, "large": 64 << 20}


def test_a_source_may_be_its_url_alone(tmp_path: Path) -> None:
    settings = load(write(tmp_path, "prometheus: {default: 'http://p:9090', edge: {url: 'https://e'}}\n"), {})

    assert {name: source.url for name, source in settings.prometheus.items()} == {
        "default": "http://p:9090", "edge": "https://e",
    }  # fmt: skip


@pytest.mark.parametrize("source", ["url: 'https://p'", "url: 'http://p', allowInsecureToken: true"])
def test_a_token_goes_over_an_encrypted_connection_or_where_that_is_allowed(tmp_path: Path, source: str) -> None:
    text = f"prometheus: {{edge: {{{source}, bearerTokenFile: /token}}}}"

    assert load(write(tmp_path, text), {}).prometheus["edge"].bearer_token_file == Path("/token")


def test_a_gateway_is_named_by_its_counter_and_labels(tmp_path: Path) -> None:
    named = "requestsTotal: 'gw:requests_total', nameLabel: deployment, selector: {job: gw}"
    settings = load(write(tmp_path, GATEWAY.format(named)), {})

    assert settings.prometheus["default"].gateway_counter == GatewayCounter(
        "gw:requests_total", "namespace", "deployment", {"job": "gw"}
    )
    assert load(write(tmp_path, "prometheus: {default: 'http://p'}"), {}).prometheus["default"].gateway_counter is None


def test_advisory_is_off_unless_asked_for() -> None:
    assert load(None, command.overrides(parse())).advisory is False
    assert load(None, command.overrides(parse("--advisory"))).advisory is True


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tickSecond: 5", "tickSecond: Extra inputs are not permitted"),
        ("tickSeconds: 0", "tickSeconds: Input should be greater than 0"),
        ("apiServer: {burst: 10}", "apiServer.burst: Input should be greater than or equal to 20"),
        ("timeScale: 0.5", "timeScale: Input should be greater than or equal to 1"),
        ("prometheus: {default: 'prometheus:9090'}", "use http://host:9090"),
        ("prometheus: {default: 'file:///etc/passwd'}", "use http://host:9090"),
        ("prometheus: {default: 'http://user:secret@p'}", "use bearerTokenFile"),
        (
            "prometheus: {edge: {url: 'http://p', bearerTokenFile: /token}}",
            "prometheus.edge: bearerTokenFile would be sent to http://p unencrypted; use an https URL, or set allow",
        ),
        (
            "prometheus: {edge: {url: 'http://p', basicAuth: {username: u, passwordFile: /p}}}",
            "prometheus.edge: basicAuth would be sent to http://p unencrypted; use an https URL, or set allow",
        ),
        (
            "prometheus: {edge: {url: 'https://p', basicAuth: {username: u, passwordFile: /p}, bearerTokenFile: /t}}",
            "prometheus.edge: bearerTokenFile and basicAuth are two answers to one question",
        ),
        ("prometheus: {edge: {url: 'https://p', clientKeyFile: /k}}", "belong together; set both"),
        ("prometheus: {edge: {url: 'http://p', headers: {authorization: x}}}", "headers: authorization is set by the"),
        ('prometheus: {edge: {url: "http://p", headers: {X-A: "a\\nb"}}}', "headers.X-A: String should match"),
        ("prometheus: {Default: 'http://p'}", "use lower-case letters"),
        (GATEWAY.format("requestsTotal: 'm{x=1}', nameLabel: d"), "gateway.requestsTotal: String should match"),
        (GATEWAY.format("requestsTotal: m, nameLabel: d-e"), "gateway.nameLabel: String should match"),
        (GATEWAY.format("requestsTotal: m"), "gateway.nameLabel: Field required"),
        (GATEWAY.format("requestsTotal: m, nameLabel: namespace"), "name two labels"),
        (GATEWAY.format("requestsTotal: m, nameLabel: d, selector: {a-b: c}"), "String should match"),
        (GATEWAY.format("requestsTotal: m, nameLabel: d, query: up"), "gateway.query: Extra inputs"),
        ("rateWindowSeconds: 30", "a rate needs 4 scrapes; use at least 60"),
        ("leaderElect: true", "leaseNamespace: leaderElect needs it"),
        ("leaseName: Lease", "leaseName: String should match"),
        ("- a list", "a mapping of settings is expected"),
        ("a: [", "while parsing"),
    ],
)
def test_a_setting_that_means_nothing_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(write(tmp_path, text), {})

    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_missing_is_one_line_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = command.run(parse("--config", str(tmp_path / "none.yaml")))

    assert status == 2
    assert capsys.readouterr().err.count("\n") == 1


def kubeconfig(folder: Path, *, authority: Path | None = None, token_file: Path | None = None) -> Path:
    cluster = {"server": "https://127.0.0.1:1"} | ({"certificate-authority": str(authority)} if authority else {})
    user = {"tokenFile": str(token_file)} if token_file else {"token": "x"}
    return write(folder, yaml.safe_dump({
        "clusters": [{"name": "it", "cluster": cluster}], "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}], "current-context": "it",
    }))  # fmt: skip


def started(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status of a process, and the last line of what it says."""
    command = [sys.executable, "-m", "firsttoken_operator.cli", "operator", "--host", "127.0.0.1", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return ended.returncode, ended.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_file_of_the_kubeconfig_that_cannot_be_read_is_named_and_not_the_port(tmp_path: Path) -> None:
    none, other = tmp_path / "none", tmp_path / "other.pem"
    other.write_text("no certificate")
    told = {
        none: started(tmp_path, "--kubeconfig", str(kubeconfig(tmp_path, token_file=none))),
        other: started(tmp_path, "--kubeconfig", str(kubeconfig(tmp_path, authority=other))),
        tmp_path: started(tmp_path, "--kubeconfig", str(tmp_path)),
    }

    for file, (status, line) in told.items():
        assert status == 2
        assert line.startswith("firsttoken operator: no cluster to work on: ")
        assert str(file) in line
        assert line.endswith("; set --kubeconfig")


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, line = started(tmp_path, "--kubeconfig", str(kubeconfig(tmp_path)), "--port", str(port))

    assert status == 2
    assert line.startswith(f"firsttoken operator: port {port}: ")
    assert line.endswith("address already in use; set --host or --port")
