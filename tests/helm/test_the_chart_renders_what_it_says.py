"""The chart, rendered and linted by the real Helm."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.cli.operator import configure, overrides
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.run.settings import load
from tests.helm.chart import CHART, CRDS, NAMESPACE, of_kind, render, run_helm


def test_the_chart_passes_a_strict_lint() -> None:
    done = run_helm("lint", "--strict", CHART)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_carries_exactly_the_generated_definitions() -> None:
    ours = {file.name: file.read_text() for file in CRDS.glob("*.yaml")}
    carried = {file.name: file.read_text() for file in (CHART / "files" / "crds").glob("*.yaml")}

    assert carried == ours, "run: python -m firsttoken_operator.api.crd helm/firsttoken/files/crds/"


def test_the_definitions_are_rendered_as_they_are_and_kept() -> None:
    expected = {}
    for file in CRDS.glob("*.yaml"):
        definition = yaml.safe_load(file.read_text())
        definition["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
        expected[definition["metadata"]["name"]] = definition
    rendered = {d["metadata"]["name"]: d for d in of_kind(render(), "CustomResourceDefinition")}

    assert rendered == expected


def test_the_definitions_can_be_left_to_others_or_to_the_release() -> None:
    assert of_kind(render("crds.enabled=false"), "CustomResourceDefinition") == []
    removable = of_kind(render("crds.keep=false"), "CustomResourceDefinition")
    assert len(removable) == 3
    assert all("annotations" not in definition["metadata"] for definition in removable)


def test_the_operator_reads_the_configuration_that_the_chart_writes(tmp_path: Path) -> None:
    (config,) = of_kind(
        render(
            "prometheus.default.url=http://p:9090", "prometheus.default.bearerTokenFile=/other",
            "prometheus.default.allowInsecureToken=true", "prometheus.edge.url=https://edge/prom", "namespaces={a,b}",
            "render.podMonitorLabels.release=prom", "render.enabled=true", "render.namespaces={a}",
            "prometheus.edge.bearerTokenFile=/token", "advisory=true",
            "prometheus.edge.gateway.requestsTotal=gw_requests_total", "prometheus.edge.gateway.nameLabel=deployment",
            "prometheus.edge.gateway.selector.job=gw", "apiServer.burst=40",
            "prometheus.edge.clientCertificateFile=/c", "prometheus.edge.clientKeyFile=/k",
            "prometheus.edge.headers.X-Scope-OrgID=team-a",
        ),
        "ConfigMap",
    )  # fmt: skip
    file = tmp_path / "config.yaml"
    file.write_text(config["data"]["config.yaml"])
    settings = load(file, {"leaseNamespace": NAMESPACE})

    assert settings.prometheus["default"].url == "http://p:9090"
    assert settings.prometheus["edge"].bearer_token_file == Path("/token")
    assert settings.prometheus["default"].bearer_token_file == Path("/other")
    assert settings.prometheus["edge"].client_certificate == (Path("/c"), Path("/k"))
    assert settings.prometheus["edge"].headers == {"X-Scope-OrgID": "team-a"}
    assert settings.prometheus["default"].gateway_counter is None
    assert settings.prometheus["edge"].gateway_counter == GatewayCounter(
        "gw_requests_total", "namespace", "deployment", {"job": "gw"}
    )
    assert (settings.namespaces, settings.advisory, settings.render) == (("a", "b"), True, True)
    assert (settings.render_namespaces, settings.cluster_scoped) == (("a",), True)
    assert settings.pod_monitor_labels == {"release": "prom"}
    assert (settings.api_server.requests_per_second, settings.api_server.burst) == (50, 40)
    assert (settings.tick_seconds, settings.scrape_interval_seconds, settings.port) == (15, 15, 8080)


def test_there_are_two_operators_and_one_at_a_time_is_taken_away(tmp_path: Path) -> None:
    (deployment,) = of_kind(render(), "Deployment")
    (budget,) = of_kind(render(), "PodDisruptionBudget")
    pod = deployment["spec"]["template"]

    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"] == {
        "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
    }  # fmt: skip
    assert budget["spec"]["maxUnavailable"] == 1
    labels = budget["spec"]["selector"]["matchLabels"]
    assert labels.items() <= pod["metadata"]["labels"].items()
    (apart,) = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels


def test_a_single_operator_has_no_budget_that_would_keep_its_node_from_being_drained() -> None:
    assert of_kind(render("replicas=1"), "PodDisruptionBudget") == []


def test_an_affinity_of_ones_own_is_all_there_is() -> None:
    (deployment,) = of_kind(render("affinity.nodeAffinity.x=y"), "Deployment")

    assert deployment["spec"]["template"]["spec"]["affinity"] == {"nodeAffinity": {"x": "y"}}


def test_the_operators_agree_on_a_lease_that_they_have_the_right_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = render("fullnameOverride=ours")
    (config,), (role,) = of_kind(manifests, "ConfigMap"), of_kind(manifests, "Role")
    (container,) = of_kind(manifests, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    paths = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    file = tmp_path / "config.yaml"
    file.write_text(config["data"]["config.yaml"])
    monkeypatch.setenv("POD_NAMESPACE", NAMESPACE)
    parser = argparse.ArgumentParser()
    configure(parser)
    settings = load(file, overrides(parser.parse_args(["--config", str(file)])))

    assert paths == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    assert settings.leader_elect
    assert (settings.lease_namespace, settings.lease_name) == (role["metadata"]["namespace"], "ours")
    assert ["ours"] in [rule.get("resourceNames") for rule in role["rules"]]


def test_the_operators_pod_is_restricted() -> None:
    (deployment,) = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_changed_configuration_has_a_name_of_its_own_and_starts_a_new_pod() -> None:
    def mounted(*values: str) -> Any:
        manifests = render(*values)
        (deployment,) = of_kind(manifests, "Deployment")
        (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
        (config,) = of_kind(manifests, "ConfigMap")
        assert volume["configMap"]["name"] == config["metadata"]["name"]
        assert config["immutable"] is True
        return config["metadata"]["name"]

    assert mounted() == mounted()
    assert mounted() != mounted("tickSeconds=30")
    assert len(mounted(f"fullnameOverride={'x' * 63}")) <= 63


KNOBS = (
    "commonLabels.team=ml", "annotations.a=b", "topologySpreadConstraints[0].maxSkew=1",
    "topologySpreadConstraints[0].topologyKey=zone", "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
    "podSecurityContext.runAsUser=null", "podSecurityContext.fsGroup=null", "livenessProbe.failureThreshold=9",
    "extraEnv[0].name=A", "extraEnv[0].value=b", "extraEnvFrom[0].secretRef.name=s", "extraArgs={--log-level=DEBUG}",
    "extraContainers[0].name=c", "extraContainers[0].image=i", "initContainers[0].name=d", "initContainers[0].image=i",
    "dnsPolicy=Default", "dnsConfig.nameservers={192.0.2.1}", "hostAliases[0].ip=192.0.2.1", "runtimeClassName=kata",
    "terminationGracePeriodSeconds=40", "revisionHistoryLimit=3", "serviceMonitor.enabled=true",
    "podMonitor.enabled=true", "podMonitor.relabelings[0].action=drop", "podDisruptionBudget.maxUnavailable=50%",
    "extraObjects[0].kind=Secret", "extraObjects[0].metadata.name=mine-{{ .Release.Name }}",
)  # fmt: skip


@pytest.fixture(scope="module")
def tuned() -> list[dict[str, Any]]:
    return render(*KNOBS)


def test_what_is_tuned_reaches_the_pod(tuned: list[dict[str, Any]]) -> None:
    (deployment,) = of_kind(tuned, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    operator, more = pod["containers"]
    (spread,) = pod["topologySpreadConstraints"]

    assert deployment["metadata"]["annotations"] == {"a": "b"}
    assert deployment["spec"]["revisionHistoryLimit"] == 3
    assert spread["labelSelector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert (operator["livenessProbe"]["failureThreshold"], operator["livenessProbe"]["periodSeconds"]) == (9, 15)
    assert {"name": "A", "value": "b"} in operator["env"]
    assert operator["envFrom"] == [{"secretRef": {"name": "s"}}]
    assert operator["args"][-1] == "--log-level=DEBUG"
    assert (more["name"], pod["initContainers"][0]["name"]) == ("c", "d")
    assert (pod["dnsPolicy"], pod["dnsConfig"]) == ("Default", {"nameservers": ["192.0.2.1"]})
    assert (pod["hostAliases"], pod["runtimeClassName"]) == ([{"ip": "192.0.2.1"}], "kata")
    assert pod["terminationGracePeriodSeconds"] == 40


def test_what_is_tuned_reaches_the_other_objects(tuned: list[dict[str, Any]]) -> None:
    (service,), (monitor,) = of_kind(tuned, "Service"), of_kind(tuned, "ServiceMonitor")
    (pods,), (budget,) = of_kind(tuned, "PodMonitor"), of_kind(tuned, "PodDisruptionBudget")
    (mine,) = (secret for secret in of_kind(tuned, "Secret"))
    made = [m for m in tuned if m["kind"] not in ("CustomResourceDefinition", "Secret", "Pod")]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert pods["spec"]["podMetricsEndpoints"][0]["relabelings"] == [{"action": "drop"}]
    assert budget["spec"]["maxUnavailable"] == "50%"
    assert mine["metadata"]["name"] == "mine-firsttoken"
    assert {manifest["metadata"]["labels"]["team"] for manifest in made} == {"ml"}


def test_helm_test_reads_the_configuration_with_the_operators_image_and_restrictions() -> None:
    manifests = render()
    (pod,), (deployment,) = of_kind(manifests, "Pod"), of_kind(manifests, "Deployment")
    (test,), (operator,) = pod["spec"]["containers"], deployment["spec"]["template"]["spec"]["containers"]

    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["volumes"] == deployment["spec"]["template"]["spec"]["volumes"]
    assert (test["image"], test["command"]) == (operator["image"], operator["command"])
    assert test["args"] == [*operator["args"], "--check"]
    assert test["securityContext"] == operator["securityContext"]
    assert of_kind(render("tests.enabled=false"), "Pod") == []


def test_an_image_digest_wins_over_the_tag() -> None:
    digest = "sha256:" + "a" * 64
    (deployment,) = of_kind(
        render("image.repository=r.example/f", "image.tag=v1", f"image.digest={digest}"), "Deployment"
    )

    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"r.example/f@{digest}"


def test_the_value_that_stops_all_writes_makes_the_switch() -> None:
    switches = [m for m in of_kind(render("writes=paused"), "ConfigMap") if "writes" in m["data"]]
    (config,) = of_kind(render(), "ConfigMap")

    (switch,) = switches
    name = f"{switch['metadata']['namespace']}/{switch['metadata']['name']}"
    assert yaml.safe_load(config["data"]["config.yaml"])["writesSwitch"] == name
    assert switch["data"] == {"writes": "paused"}
    (stopped,), (going,) = (of_kind(render(*values), "Deployment") for values in (("writes=paused",), ()))
    assert stopped == going, "no restart"


def test_optional_objects_are_optional() -> None:
    kinds = {manifest["kind"] for manifest in render()}
    options = ("podMonitor.enabled=true", "networkPolicy.enabled=true", "prometheusRule.enabled=true")
    more = {manifest["kind"] for manifest in render(*options)}

    assert more - kinds == {"PodMonitor", "NetworkPolicy", "PrometheusRule"}


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds() -> None:
    wanted = ("dashboards.enabled=true", "dashboards.namespace=monitoring", "dashboards.folder=LLM")
    made = [m for m in of_kind(render(*wanted), "ConfigMap") if m["metadata"]["namespace"] == "monitoring"]
    files = {file.name: file.read_text() for file in (CHART / "files/dashboards").iterdir()}

    assert {name: text for each in made for name, text in each["data"].items()} == files
    assert len(files) == 2
    for each in made:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "LLM"}
    (plain,) = (m for m in of_kind(render("dashboards.enabled=true"), "ConfigMap") if "fleet.json" in m["data"])
    assert plain["metadata"]["namespace"] == NAMESPACE
    assert "annotations" not in plain["metadata"]
    assert not [m for m in of_kind(render(), "ConfigMap") if "fleet.json" in m["data"]]


def test_a_network_policy_lets_out_to_the_api_server_and_to_each_prometheus_only() -> None:
    (policy,) = of_kind(
        render(
            "networkPolicy.enabled=true", "networkPolicy.apiServerCIDRs={10.0.0.1/32}",
            "prometheus.edge.url=https://edge/prom", "prometheus.mimir.url=http://mimir:8080",
        ),
        "NetworkPolicy",
    )  # fmt: skip
    dns, api, prometheus = policy["spec"]["egress"]
    ports = [sorted(port["port"] for port in rule["ports"]) for rule in (dns, api, prometheus)]

    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert ports == [[53, 53], [443, 6443], [443, 8080, 9090]]
    assert api["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]


def policies(*values: str) -> set[str]:
    return {manifest["metadata"]["name"] for manifest in of_kind(render(*values), "ValidatingAdmissionPolicy")}


def test_what_a_tenant_names_is_judged_before_rendering_is_turned_on() -> None:
    more = policies("render.enabled=true") - policies()

    assert f"{NAMESPACE}.firsttoken-tenants" in policies()
    assert more == {f"{NAMESPACE}.firsttoken-render{which}" for which in ("", "-secrets", "-claims")}
    assert policies("admissionPolicy.enabled=false") == set()


def test_rendering_without_the_policies_is_chosen_and_never_slipped_into() -> None:
    unconfined = ("render.enabled=true", "admissionPolicy.enabled=false")
    done = run_helm("template", "firsttoken", CHART, *(part for value in unconfined for part in ("--set", value)))

    assert done.returncode != 0
    assert "render.withoutPolicies" in done.stderr
    assert policies(*unconfined, "render.withoutPolicies=true") == set()


def test_without_the_policies_the_notes_say_which_values_mean_nothing() -> None:
    def notes(*values: str) -> str:
        sets = [part for value in values for part in ("--set", value)]
        return run_helm("install", "firsttoken", CHART, "--dry-run=client", *sets).stdout.partition("NOTES:")[2]

    unconfined = notes("admissionPolicy.enabled=false")
    assert "WARNING" not in notes()
    assert "kubectl label namespace NAMESPACE firsttoken.dev/scale=true" in notes()
    assert "firsttoken.dev/scale=true" not in notes("scale.requireLabel=false")
    assert "scale.requireLabel means nothing" in unconfined
    assert "any pod" not in unconfined
    more = notes("admissionPolicy.enabled=false", "render.enabled=true", "render.withoutPolicies=true")
    assert "any pod" in more


def test_the_policies_of_another_namespaces_release_are_others() -> None:
    done = run_helm("template", "firsttoken", CHART, "--namespace", "team", "--set", "render.enabled=true")
    theirs = of_kind(
        [document for document in yaml.safe_load_all(done.stdout) if document], "ValidatingAdmissionPolicy"
    )
    bindings = of_kind(render("render.enabled=true"), "ValidatingAdmissionPolicyBinding")

    assert theirs
    assert not {policy["metadata"]["name"] for policy in theirs} & policies("render.enabled=true")
    assert {binding["spec"]["policyName"] for binding in bindings} == policies("render.enabled=true")
    assert all(binding["metadata"]["name"].startswith(binding["spec"]["policyName"]) for binding in bindings)


def test_a_write_in_an_open_namespace_looks_at_no_other_deployment() -> None:
    """Each parameter costs the API server half a millisecond with every write, and a namespace may have hundreds."""
    label, open_ = "firsttoken.dev/scale", {"matchLabels": {"firsttoken.dev/scale": "true"}}
    bindings = [each["spec"] for each in of_kind(render(), "ValidatingAdmissionPolicyBinding")]
    (looked_at,) = [
        each["paramRef"]["selector"]["matchExpressions"]
        for each in bindings
        if each.get("matchResources", {}).get("namespaceSelector") == open_
    ]

    assert {"key": label, "operator": "Exists"} in looked_at
    assert {"key": label, "operator": "NotIn", "values": ["true"]} in looked_at


def test_the_operators_own_metrics_keep_their_namespace() -> None:
    (monitor,) = of_kind(render("podMonitor.enabled=true"), "PodMonitor")

    assert [endpoint["honorLabels"] for endpoint in monitor["spec"]["podMetricsEndpoints"]] == [True]
