"""The rights of the operator's ServiceAccount: a closed list, and on a real API server exactly that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.domain.target_kinds import NAMED, TargetKind
from firsttoken_operator.observe.refusals import REFUSED_BY_EVENT
from firsttoken_operator.run.sizing_store import SHARDS
from firsttoken_operator.run.watches import DEVICES, GROUP, WATCHED, watched_with
from tests.helm.chart import CHART, CRDS, NAMESPACE, of_kind, render, run_helm
from tools.cluster import Cluster, wait_until

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
    for group, kind in (
        ("apps", "deployments"),
        ("", "services"),
        ("policy", "poddisruptionbudgets"),
        ("monitoring.coreos.com", "podmonitors"),
    )
    for verb in ("get", "create", "patch")
} | {
    (GROUP, "inferencedeployments/finalizers", "update"),
    ("", "services", "list"),
    ("policy", "poddisruptionbudgets", "list"),
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


RENDERED = "render.enabled=true"
CLUSTER = {(watched.group, watched.plural, verb) for watched in WATCHED if not watched.namespaced
           for verb in ("list", "watch")} | {(GROUP, "gpupools/status", "patch")}  # fmt: skip
"""Kinds and verbs of what belongs to no namespace."""


def bound_roles(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but the roles for tenants, which have no binding."""
    bound = {manifest["roleRef"]["name"] for manifest in manifests if "roleRef" in manifest}
    return [
        manifest
        for manifest in manifests
        if manifest["kind"].endswith("Role") and manifest["metadata"]["name"] in bound
    ]


def test_the_rights_are_a_closed_list() -> None:
    roles = bound_roles(render(RENDERED))

    assert rights(roles) == ALWAYS | RENDERING
    assert rights(roles, "Role") == OWN


def test_choosing_the_pods_that_end_adds_one_right_and_needs_the_policy_that_confines_it() -> None:
    chosen = render("scale.chooseVictims=true")
    policies = {policy["metadata"]["name"] for policy in of_kind(chosen, "ValidatingAdmissionPolicy")}
    done = run_helm(
        "template", "x", CHART, "--set", "scale.chooseVictims=true", "--set", "admissionPolicy.enabled=false"
    )

    assert rights(bound_roles(chosen)) == ALWAYS | {("", "pods", "patch")}
    assert f"{NAMESPACE}.firsttoken-victims" in policies
    assert done.returncode != 0
    assert "scale.chooseVictims: true needs admissionPolicy.enabled" in done.stderr


def test_counting_gpus_that_are_claimed_adds_the_rights_to_watch_claims_and_what_is_published() -> None:
    added = {(each.group, each.plural, verb) for each in DEVICES for verb in ("list", "watch")}

    assert rights(bound_roles(render("gpus.deviceClasses={gpu.nvidia.com}"))) == ALWAYS | added


@pytest.mark.parametrize("kind", NAMED.values(), ids=NAMED)
def test_another_kind_that_is_scaled_adds_the_right_to_watch_it_and_to_write_its_replicas(kind: TargetKind) -> None:
    writable = kind.plural if kind.patched else f"{kind.plural}/scale"
    added = {(kind.group, kind.plural, verb) for verb in ("list", "watch")} | {
        (kind.group, writable, verb) for verb in ("get", "patch")
    }
    if kind in REFUSED_BY_EVENT:
        added |= {("", "events", "list"), ("", "events", "watch")}
    manifests = render(f"scale.kinds={{{kind.kind}}}")
    policies = {policy["metadata"]["name"] for policy in of_kind(manifests, "ValidatingAdmissionPolicy")}

    assert rights(bound_roles(manifests)) == ALWAYS | added
    assert f"{NAMESPACE}.firsttoken-scale-{kind.plural}.{kind.group}" in policies


def test_groups_are_rendered_where_they_may_be_scaled_and_confined_as_deployments_are() -> None:
    kinds = "scale.kinds={LeaderWorkerSet}"
    manifests = render(RENDERED, kinds)
    added = rights(bound_roles(manifests)) - rights(bound_roles(render(kinds))) - RENDERING
    policies = {policy["metadata"]["name"] for policy in of_kind(manifests, "ValidatingAdmissionPolicy")}
    alone = {policy["metadata"]["name"] for policy in of_kind(render(RENDERED), "ValidatingAdmissionPolicy")}

    assert added == {("leaderworkerset.x-k8s.io", "leaderworkersets", verb) for verb in ("get", "create", "patch")}
    assert policies - alone == {f"{NAMESPACE}.firsttoken-scale-leaderworkersets.leaderworkerset.x-k8s.io"} | {
        f"{NAMESPACE}.firsttoken-render-{each}{named}"
        for each in ("leaders", "workers") for named in ("", "-secrets", "-claims")
    }  # fmt: skip


def test_images_are_kept_where_that_is_allowed_and_what_keeps_them_is_confined() -> None:
    pre_pull, alone = render(RENDERED, "render.prePull=true"), render(RENDERED)
    names = [
        {policy["metadata"]["name"] for policy in of_kind(each, "ValidatingAdmissionPolicy")}
        for each in (pre_pull, alone)
    ]

    assert rights(bound_roles(pre_pull)) - rights(bound_roles(alone)) == {
        ("apps", "daemonsets", verb) for verb in ("get", "list", "create", "patch", "delete")
    }
    assert names[0] - names[1] == {
        f"{NAMESPACE}.firsttoken-render-images", f"{NAMESPACE}.firsttoken-render-images-secrets",
    }  # fmt: skip
    assert render("render.prePull=true", "render.enabled=false") == render()


def test_a_kind_of_ones_own_is_granted_as_it_is_served() -> None:
    values = ("apiVersion=example.com/v1", "kind=Server", "plural=servers")
    granted = rights(bound_roles(render(*(f"scale.kinds[0].{value}" for value in values))))

    assert granted == ALWAYS | {
        ("example.com", "servers", "list"), ("example.com", "servers", "watch"),
        ("example.com", "servers/scale", "get"), ("example.com", "servers/scale", "patch"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (("scale.kinds={NIMService}", "admissionPolicy.enabled=false"), "NIMService needs admissionPolicy.enabled"),
        (("scale.kinds={RayService}",), "scale"),
        (("scale.kinds[0].kind=Server",), "scale"),
    ],
)
def test_a_kind_that_cannot_be_granted_safely_or_is_not_known_is_refused(
    values: tuple[str, ...], complaint: str
) -> None:
    done = run_helm("template", "firsttoken", CHART, *(part for value in values for part in ("--set", value)))

    assert done.returncode != 0
    assert complaint in done.stderr


def described(number: int, api_version: str, kind: str, plural: str) -> tuple[str, ...]:
    values = {"apiVersion": api_version, "kind": kind, "plural": plural}
    return tuple(f"scale.kinds[{number}].{name}={value}" for name, value in values.items())


COLLIDING = {
    "a known kind of another group": (
        described(0, "apps.kruise.io/v1beta1", "StatefulSet", "statefulsets"),
        "StatefulSet is known",
    ),
    "a Deployment of another group": (
        described(0, "x.example.com/v1", "Deployment", "deployments"),
        "Deployment is there already",
    ),
    "a kind that is watched": (described(0, "x.example.com/v1", "GPUPool", "pools"), "GPUPool is there already"),
    "the resource of Deployments": (described(0, "apps/v1", "Own", "deployments"), "deployments.apps is there already"),
    "a known resource": (
        ("scale.kinds[0]=StatefulSet", *described(1, "apps/v1", "Own", "statefulsets")),
        "statefulsets.apps is there already",
    ),
    "one kind of two groups": (
        (
            *described(0, "a.example.com/v1", "Server", "servers"),
            *described(1, "b.example.com/v1", "Server", "servers"),
        ),
        "Server is there already",
    ),
    "one resource of two versions": (
        (*described(0, "a.example.com/v1", "A", "servers"), *described(1, "a.example.com/v2", "B", "servers")),
        "servers.a.example.com is there already",
    ),
}


@pytest.mark.parametrize(("values", "complaint"), COLLIDING.values(), ids=COLLIDING)
def test_kinds_that_would_be_taken_for_each_other_are_refused(values: tuple[str, ...], complaint: str) -> None:
    done = run_helm("template", "firsttoken", CHART, *(part for value in values for part in ("--set", value)))

    assert done.returncode != 0
    assert f"scale.kinds: {complaint}" in done.stderr


def test_kinds_of_one_plural_have_a_policy_each() -> None:
    manifests = render(*described(0, "a.io/v1", "ServerA", "servers"), *described(1, "b.io/v1", "ServerB", "servers"),
                       *described(2, "c.io/v1", "Own", "deployments"))  # fmt: skip
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        names = [each["metadata"]["name"] for each in of_kind(manifests, kind)]
        assert len(names) == len(set(names))
        policy = f"{NAMESPACE}.firsttoken-scale"
        assert {policy, *(f"{policy}-{of}" for of in ("servers.a.io", "servers.b.io", "deployments.c.io"))} <= set(
            names
        )


@pytest.mark.parametrize("kind", NAMED.values(), ids=NAMED)
def test_events_are_watched_where_they_alone_tell_of_refused_pods(kind: TargetKind) -> None:
    watched = {each.plural for each in watched_with([kind])}

    assert ("events" in watched) == (kind in REFUSED_BY_EVENT)


def test_without_rendering_only_events_leases_and_sizings_can_be_created() -> None:
    granted, own = rights(bound_roles(render())), rights(bound_roles(render()), "Role")

    assert (granted, own) == (ALWAYS, OWN)
    assert {resource for _, resource, verb in granted if verb == "create"} == {"events"}
    assert {resource for _, resource, verb in own if verb == "create"} == {"leases", "configmaps"}


def test_rendering_is_a_right_in_the_namespaces_that_are_listed_only() -> None:
    manifests = render(RENDERED, "render.namespaces={team-a}")
    bindings = {binding["metadata"]["name"]: binding for binding in manifests if "roleRef" in binding}
    (role,) = (role for role in of_kind(manifests, "ClusterRole") if role["metadata"]["name"] == "firsttoken-render")

    assert rights([role]) == RENDERING
    assert bindings["firsttoken-render"]["kind"] == "RoleBinding"
    assert bindings["firsttoken-render"]["metadata"]["namespace"] == "team-a"
    assert bindings["firsttoken"]["kind"] == "ClusterRoleBinding"
    assert rights(manifests) >= ALWAYS


def test_without_rights_on_the_cluster_there_are_roles_in_the_namespaces_only() -> None:
    manifests = render(RENDERED, "namespaces={team-a,team-b}", "render.namespaces={team-b}", "rbac.clusterScoped=false")
    by_namespace = {namespace: rights([role for role in of_kind(manifests, "Role")
                                       if role["metadata"]["namespace"] == namespace], "Role")
                    for namespace in ("team-a", "team-b", NAMESPACE)}  # fmt: skip

    assert not [manifest for manifest in manifests if manifest["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    assert by_namespace == {"team-a": ALWAYS - CLUSTER, "team-b": (ALWAYS - CLUSTER) | RENDERING, NAMESPACE: OWN}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (("rbac.clusterScoped=false",), "rbac.clusterScoped: false needs namespaces"),
        ((RENDERED, "namespaces={team-a}", "render.namespaces={team-b}"), "team-b is not among namespaces"),
    ],
)
def test_rights_that_cannot_be_given_so_are_refused(values: tuple[str, ...], complaint: str) -> None:
    done = run_helm("template", "firsttoken", CHART, *(part for value in values for part in ("--set", value)))

    assert done.returncode != 0
    assert complaint in done.stderr


def test_no_rule_names_a_wildcard_or_a_secret() -> None:
    for group, resource, verb in rights(render(RENDERED)):
        assert "*" not in (group, resource, verb)
        assert resource not in ("secrets", "configmaps", "pods/exec", "serviceaccounts")


@pytest.mark.slow
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


def test_where_the_administrator_gives_the_rights_the_chart_gives_none() -> None:
    assert not [manifest["kind"] for manifest in render(RENDERED, "rbac.create=false") if "Role" in manifest["kind"]]


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


def reviewed(cluster: Cluster, account: Path, namespace: str) -> set[Right]:
    """Rights of the account in a namespace, beside those of every account."""
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace},
    }  # fmt: skip
    answer = cluster.kubectl(
        "create", "--validate=false", "-o", "json", "-f", "-", stdin=json.dumps(review), kubeconfig=account
    ).stdout
    return {
        (group, resource, verb)
        for rule in json.loads(answer)["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if group not in ("authorization.k8s.io", "authentication.k8s.io")
    }


@pytest.mark.cluster
def test_the_service_account_may_do_this_and_nothing_else(cluster: Cluster) -> None:
    kinds = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    manifests = [manifest for manifest in render(RENDERED) if manifest["kind"] in kinds]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    account = cluster.service_account_kubeconfig(NAMESPACE, "firsttoken")
    for namespace in ("default", "kube-system"):
        assert reviewed(cluster, account, namespace) == ALWAYS | RENDERING
    assert reviewed(cluster, account, NAMESPACE) == ALWAYS | RENDERING | OWN
    for verb, resource in (("get", "secrets"), ("update", "deployments.apps"), ("delete", "pods"), ("patch", "nodes")):
        assert not allowed(cluster, account, verb, resource, "default")
    leases = "leases.coordination.k8s.io"
    assert allowed(cluster, account, "patch", f"{leases}/firsttoken", NAMESPACE)
    assert not allowed(cluster, account, "patch", f"{leases}/another", NAMESPACE)
    assert not allowed(cluster, account, "patch", f"{leases}/firsttoken", "default")


@pytest.mark.cluster
def test_tenants_get_their_rights_with_kubernetes_own_roles(cluster: Cluster) -> None:
    roles = [manifest for manifest in render() if manifest["kind"] == "ClusterRole"]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))

    def aggregated(role: str) -> set[str]:
        found = json.loads(cluster.kubectl("get", "clusterrole", role, "-o", "json").stdout)
        rules = [rule for rule in found["rules"] or () if "inferencedeployments" in rule["resources"]]
        return {verb for rule in rules for verb in rule["verbs"]}

    read, write = {"get", "list", "watch"}, {"create", "update", "patch", "delete", "deletecollection"}
    wait_until(lambda: aggregated("admin"), 60, "aggregated")
    assert aggregated("view") == read
    assert aggregated("edit") == aggregated("admin") == read | write
    assert not [role for role in of_kind(render("rbac.aggregate=false"), "ClusterRole") if "-view" in str(role)]
