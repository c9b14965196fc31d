"""Values that cannot work: a message of the schema, no crash of a template or of the operator, and no open door."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.run.settings import SettingsError, load
from tests.helm.chart import CHART, NAMESPACE, leaves, of_kind, parsed, run_helm

EVERYTHING = (
    "render.enabled=true", "podMonitor.enabled=true", "serviceMonitor.enabled=true", "prometheusRule.enabled=true",
    "dashboards.enabled=true", "networkPolicy.enabled=true",
)  # fmt: skip
SCHEMA = "don't meet the specifications of the schema"


def template(*values: str) -> tuple[str, list[dict[str, Any]]]:
    """Helm's complaint about the values, and the manifests that it renders."""
    sets = [part for value in ("crds.enabled=false", *values) for part in ("--set", value)]
    done = run_helm("template", "firsttoken", CHART, "--namespace", NAMESPACE, *sets)
    return done.stderr if done.returncode else "", parsed(done.stdout)


def nothings(document: Any, path: str = "") -> Iterator[str]:
    """Paths at which a document says null."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from nothings(value, f"{path}.{key}")
    elif isinstance(document, list):
        for position, value in enumerate(document):
            yield from nothings(value, f"{path}[{position}]")
    elif document is None:
        yield path


def policies(manifests: list[dict[str, Any]]) -> set[str]:
    """Names of the policies."""
    return {each["metadata"]["name"] for each in of_kind(manifests, "ValidatingAdmissionPolicy")}


def flaw_without(value: str, folder: Path, wanted: set[str]) -> str:
    """The flaw of a release that one value was taken away from; empty: none, or the schema names it."""
    complaint, manifests = template(*EVERYTHING, f"{value}=null")
    if complaint:
        return "" if SCHEMA in complaint else complaint
    (config,) = (each for each in of_kind(manifests, "ConfigMap") if "config.yaml" in each["data"])
    file = folder / f"{value.replace('/', '-')}.yaml"
    file.write_text(config["data"]["config.yaml"])
    try:
        load(file, {"leaseNamespace": NAMESPACE})
    except SettingsError as error:
        return f"the operator refuses it: {error}"
    if missing := wanted - policies(manifests):
        return f"not confined by {missing}"
    return "".join(found for each in manifests for found in nothings(each, each["kind"]))


@pytest.mark.slow
def test_a_value_that_is_taken_away_is_refused_or_missed_by_none(tmp_path: Path) -> None:
    wanted, paths = policies(template(*EVERYTHING)[1]), list(leaves(sections=True))
    with ThreadPoolExecutor(4) as pool:
        flaws = dict(zip(paths, pool.map(lambda path: flaw_without(path, tmp_path, wanted), paths), strict=True))

    assert {path: flaw for path, flaw in flaws.items() if flaw} == {}
    assert wanted
    assert len(flaws) > 100


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("tickSecond=5", "tickSecond"),
        ("tickSeconds=0", "tickSeconds"),
        ("apiServer.burst=10", "apiServer"),
        ("prometheus.default.url=prometheus:9090", "url"),
        ("prometheus.default.url=http://user:secret@p:9090", "url"),
        ("prometheus.default.query=up", "query"),
        ("prometheus.default.gateway.requestsTotal=up", "nameLabel"),
        ("prometheus.default.gateway.query=up", "query"),
        ("prometheus.default.gateway.requestsTotal=sum(up)", "requestsTotal"),
        ("prometheus=null", "prometheus"),
        ("writes=false", "writes"),
        ("prometheusRule.runbookUrl=a#b", "runbookUrl"),
        ("logLevel=LOUD", "logLevel"),
        ("replicas=-1", "replicas"),
        ("namespaces={Upper}", "namespaces"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("render.enabled=perhaps", "enabled"),
        ("render.allowed.images={nvcr.io/nim:1}", "images"),
        ("render.allowed.secrets={all}", "secrets"),
        ("scale.requireLabel=sometimes", "requireLabel"),
        ("livenessProbe.port=1", "port"),
        ("podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
        ("extraEnv[0].value=x", "name"),
        ("prometheus.default.basicAuth.username=u", "passwordFile"),
        ("prometheus.default.headers.a b=c", "a b"),
        ("networkPolicy.apiServerPorts={https}", "apiServerPorts"),
        ("networkPolicy.apiServerCIDRs={kubernetes}", "apiServerCIDRs"),
        ("admissionPolicy.enabled=null", "enabled"),
        ("scale.requireLabel=null", "requireLabel"),
        ("networkPolicy.apiServerPorts=null", "apiServerPorts"),
        ("prometheus.default.bearerTokenFile=/t", "https"),
        ("prometheus.default.basicAuth.username=u,prometheus.default.basicAuth.passwordFile=/p", "https"),
        (
            "prometheus.default.url=https://p,prometheus.default.bearerTokenFile=/t,"
            "prometheus.default.basicAuth.username=u,prometheus.default.basicAuth.passwordFile=/p",
            "'not' failed",
        ),
        ("prometheus.default.clientKeyFile=/k", "clientCertificateFile"),
        ("prometheus.default.clientCertificateFile=/c", "clientKeyFile"),
        ("prometheus.default.headers.authorization=x", "authorization"),
        ("prometheus.default.headers.Host=x", "Host"),
        ("prometheus.default.url=http://p:99999", "url"),
        ("prometheus.default.url=http://p:0", "url"),
        ("commonLabels.app\\.kubernetes\\.io/name=x", "app.kubernetes.io/name"),
        ("podLabels.app\\.kubernetes\\.io/instance=x", "app.kubernetes.io/instance"),
        ("podMonitor.labels.helm\\.sh/chart=x", "helm.sh/chart"),
        ("podLabels.team=a b", "team"),
        ("image.tag=a b", "tag"),
        ("image.repository=r.example/f@sha256:1", "repository"),
        ("priorityClassName=Bad Name", "priorityClassName"),
        ("runtimeClassName=Bad Name", "runtimeClassName"),
        ("serviceAccount.name=Bad Name", "name"),
        ("dashboards.namespace=Bad Name", "namespace"),
        ("imagePullSecrets[0].name=Bad Name", "imagePullSecrets"),
        ("tolerations[0].foo=x", "foo"),
        ("tolerations[0].operator=Is", "operator"),
        ("affinity.nodeAfinity.x=y", "nodeAfinity"),
        ("resources.limits.memory=lots", "memory"),
        ("resources.requests.cpu=1 core", "cpu"),
        ("strategy.type=Rolling", "type"),
        ("extraVolumes[0].secret.secretName=s", "name"),
        ("extraVolumeMounts[0].name=s", "mountPath"),
        ("hostAliases[0].hostnames={a}", "ip"),
        ("podMonitor.enabled=true,podMonitor.scrapeTimeoutSeconds=60", "longer than its intervalSeconds"),
    ],
)
def test_a_value_that_means_nothing_is_refused(value: str, complaint: str) -> None:
    refusal, _ = template(value)

    assert complaint in refusal


@pytest.mark.parametrize(
    "value",
    [
        "prometheus.default.url=https://[2001:db8::1]:9090/prometheus", "prometheus.default.url=http://p:65535/",
        "prometheus.default.bearerTokenFile=/t,prometheus.default.allowInsecureToken=true", "prometheus.default=null,"
        "prometheus.edge.url=https://p,prometheus.edge.clientKeyFile=/k,prometheus.edge.clientCertificateFile=/c",
        "prometheus.default.headers.Hostname=x", "image.repository=localhost:5000/f", "resources.limits.cpu=1.5",
        "resources.limits.nvidia\\.com/gpu=1", "resources=null", "strategy.type=Recreate,strategy.rollingUpdate=null",
        "podLabels.example\\.com/team=a_b", "tolerations[0].operator=Exists", "podDisruptionBudget.minAvailable=50%",
    ],
)  # fmt: skip
def test_an_unusual_value_that_works_is_taken(value: str) -> None:
    assert template(value)[0] == ""
