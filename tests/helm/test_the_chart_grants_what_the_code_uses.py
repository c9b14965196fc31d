"""The rights of the operator's ServiceAccount: a closed list, and on a real API server exactly that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.run.sizing_store import SHARDS
from firsttoken_operator.run.watches import GROUP, WATCHED
from tests.helm.chart import CRDS, NAMESPACE, of_kind, render
from tools.cluster import Cluster

Right = tuple[str, str, str]
"""API group, resource, verb."""

ALWAYS: set[Right] = {
    (GROUP, "inferencedeployments", "get"),
    (GROUP, "inferencedeployments/status", "patch"),
    (GROUP, "gpupools/status", "patch"),
    ("apps", "deployments/scale", "get"),
    ("apps", "deployments/scale", "patch"),
    ("", "events", "create"),
    ("", "events", "patch"),
} | {(watched.group, watched.plural, verb) for watched in WATCHED for verb in ("list", "watch")}
RENDERING: set[Right] = {
    (group, kind, verb)
    for group, kind in (("apps", "deployments"), ("", "services"), ("monitoring.coreos.com", "podmonitors"))
    for verb in ("get", "create", "patch")
} | {
    (GROUP, "inferencedeployments/finalizers", "update"),
    ("", "services", "list"),
    ("monitoring.coreos.com", "podmonitors", "list"),
}


OWN: set[Right] = {
    (group, kind, verb)
    for group, kind in (("", "configmaps"), ("coordination.k8s.io", "leases"))
    for verb in ("create", "get", "patch")
}
"""In the operator's own namespace: the switch, the sizings that are kept, and the Lease."""


def rights(manifests: list[dict[str, Any]], kind: str = "ClusterRole") -> set[Right]:
    return {
        (group, resource, verb)
        for role in of_kind(manifests, kind)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_rights_are_a_closed_list() -> None:
    assert rights(render()) == ALWAYS | RENDERING
    assert rights(render(), "Role") == OWN


def test_without_rendering_nothing_can_be_created_but_events() -> None:
    granted = rights(render("render.enabled=false"))

    assert granted == ALWAYS
    assert {resource for _, resource, verb in granted if verb == "create"} == {"events"}


def test_no_rule_names_a_wildcard_or_a_secret() -> None:
    for group, resource, verb in rights(render()):
        assert "*" not in (group, resource, verb)
        assert resource not in ("secrets", "configmaps", "pods/exec", "serviceaccounts")


def test_in_its_own_namespace_it_reads_the_switch_keeps_sizings_and_a_lease_and_touches_no_other_object() -> None:
    manifests = render("namespaces={team-a}")
    (role,) = of_kind(manifests, "Role")
    (binding,) = (b for b in of_kind(manifests, "RoleBinding") if b["roleRef"]["kind"] == "Role")
    (config,) = of_kind(manifests, "ConfigMap")
    settings = yaml.safe_load(config["data"]["config.yaml"])
    kept = settings["sizingStore"].removeprefix(f"{NAMESPACE}/")
    named = {(rule["resources"][0], *rule["verbs"]): rule.get("resourceNames") for rule in role["rules"]}

    assert rights(manifests, "Role") == OWN
    assert named == {
        ("configmaps", "get"): [settings["writesSwitch"].removeprefix(f"{NAMESPACE}/")],
        ("configmaps", "get", "patch"): [f"{kept}-{shard}" for shard in SHARDS],
        ("configmaps", "create"): None,
        ("leases", "create"): None,
        ("leases", "get", "patch"): [settings["leaseName"]],
    }
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {NAMESPACE}


def test_with_namespaces_workloads_are_readable_in_these_only() -> None:
    manifests = render("namespaces={team-a,team-b}")
    (everywhere,) = of_kind(manifests, "ClusterRoleBinding")
    bound = {binding["metadata"]["namespace"] for binding in of_kind(manifests, "RoleBinding")
             if binding["roleRef"]["kind"] == "ClusterRole"}  # fmt: skip

    assert everywhere["roleRef"]["name"] == "firsttoken-cluster"
    assert bound == {"team-a", "team-b"}


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        running.kubectl("create", "namespace", NAMESPACE)
        running.kubectl("apply", "--server-side", "-f", CRDS)
        yield running


def allowed(cluster: Cluster, account: Path, verb: str, resource: str, namespace: str) -> bool:
    scope = ["--namespace", namespace] if namespace else []
    done = cluster.kubectl("auth", "can-i", verb, resource, *scope, kubeconfig=account, check=False)
    return done.stdout.strip() == "yes"


@pytest.mark.cluster
def test_the_service_account_may_do_this_and_nothing_else(cluster: Cluster) -> None:
    kinds = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    manifests = [manifest for manifest in render() if manifest["kind"] in kinds]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    account = cluster.service_account_kubeconfig(NAMESPACE, "firsttoken")
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"},
    }  # fmt: skip
    answer = cluster.kubectl(
        "create", "--validate=false", "-o", "json", "-f", "-", stdin=json.dumps(review), kubeconfig=account
    ).stdout
    granted = {
        (group, resource, verb)
        for rule in json.loads(answer)["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    everybodys = {right for right in granted if right[0] in ("authorization.k8s.io", "authentication.k8s.io")}

    assert granted - everybodys == ALWAYS | RENDERING
    for verb, resource in (("get", "secrets"), ("update", "deployments.apps"), ("delete", "pods"), ("patch", "nodes")):
        assert not allowed(cluster, account, verb, resource, "default")
    leases = "leases.coordination.k8s.io"
    assert allowed(cluster, account, "patch", f"{leases}/firsttoken", NAMESPACE)
    assert not allowed(cluster, account, "patch", f"{leases}/another", NAMESPACE)
    assert not allowed(cluster, account, "patch", f"{leases}/firsttoken", "default")
