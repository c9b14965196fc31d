"""The chart's ValidatingAdmissionPolicies, judged by a real API server with the token of the operator's account."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.act.events import COMPONENT
from firsttoken_operator.act.manifests import (
    deployment,
    disruption_budget,
    image_keeper,
    leader_worker_set,
    manifests,
    pod_monitor,
    service,
)
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.runtime import Runtime
from firsttoken_sizing.profile import ConfigurationKey
from tests.docs.pages import ROOT
from tests.helm.chart import CHART, NAMESPACE, of_kind, parsed, render, run_helm
from tests.operator.act.golden import EXAMPLES, POD_KINDS, golden, templates
from tests.operator.act.objects import infd, workload
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.run.process import installed
from tools.cluster import Cluster, wait_until
from tools.cluster.definitions import LEADER_WORKER_SET, POD_MONITOR, definition_of

pytestmark = pytest.mark.cluster

KEY = ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8")
OPEN = {"firsttoken.dev/scale": "true"}
TENANT = "tenant@team.example"
MOST_PULL_SECRETS: int = Runtime.model_json_schema()["properties"]["imagePullSecrets"]["maxItems"]
GROUPS, PRE_PULL = "scale.kinds={LeaderWorkerSet}", "render.prePull=true"
Json = dict[str, Any]
Attempt = subprocess.CompletedProcess[str]


class Operator:
    """Attempts of the operator's account: each method is one."""

    def __init__(self, cluster: Cluster, account: Path) -> None:
        self.cluster, self.account = cluster, account

    def scale(self, name: str, namespace: str = "team", replicas: int = 3) -> Attempt:
        """Write replicas as the operator does."""
        patch = json.dumps({"spec": {"replicas": replicas}})
        what = ("patch", "deployment", name, "-n", namespace, "--subresource=scale", "--type=merge", "-p", patch)
        return self.cluster.kubectl(*what, kubeconfig=self.account, check=False)

    def create(self, manifest: Json) -> Attempt:
        """Create as the operator does."""
        stdin = json.dumps(manifest)
        return self.cluster.kubectl("create", "-f", "-", stdin=stdin, kubeconfig=self.account, check=False)

    def apply(self, manifest: Json) -> Attempt:
        """Render as the operator does."""
        what = ("apply", "--server-side", "--force-conflicts", "--field-manager=firsttoken", "-f", "-")
        return self.cluster.kubectl(*what, stdin=json.dumps(manifest), kubeconfig=self.account, check=False)


def refused(attempt: Attempt, message: str) -> None:
    """It was denied by a policy, in these words."""
    assert attempt.returncode != 0, attempt.stdout
    assert "ValidatingAdmissionPolicy" in attempt.stderr
    assert message in attempt.stderr


def allowed(attempt: Attempt) -> None:
    assert attempt.returncode == 0, attempt.stderr


def declared(name: str, namespace: str = "team", **runtime: Any) -> Json:
    document = infd(name, runtime=MINIMAL | runtime)
    del document["spec"]["targetRef"]
    document["metadata"]["namespace"] = namespace
    return document


def rendering(name: str = "chat", namespace: str = "team", *, uid: str = "1-1", **runtime: Any) -> Rendering:
    document = declared(name, namespace, **runtime)
    document["metadata"] |= {"uid": uid, "generation": 1}
    return Rendering(InferenceDeployment.model_validate(document), KEY, {}, {}, 15)


def groups(name: str = "chat", namespace: str = "team", **runtime: Any) -> Json:
    """A LeaderWorkerSet whose replicas take two servers."""
    server = {"type": "VLLM", "image": "nvcr.io/nim/vllm:v0.33.0", "checkpoint": "a/checkpoint"}
    over = replace(KEY, tensor_parallel=8, pipeline_parallel=2)
    made = rendering(name, namespace, **(server | runtime))
    return leader_worker_set(replace(made, configuration=over, spans_servers=True))


def keeper(name: str = "chat", namespace: str = "team", **runtime: Any) -> Json:
    """A DaemonSet that keeps the image."""
    made = rendering(name, namespace, **({"prePull": True} | runtime))
    return image_keeper(replace(made, pre_pulls=True, gpu_products=("NVIDIA-H100-80GB-HBM3",)))


@pytest.fixture(scope="module")
def operator(control_plane: Path) -> Iterator[Operator]:
    with installed(GROUPS, PRE_PULL, nodes=1) as (cluster, account):
        for definition in (POD_MONITOR, LEADER_WORKER_SET):
            cluster.kubectl("apply", "--server-side", "-f", definition_of(definition))
        cluster.wait_until_established()
        for name, label in (("team", "firsttoken.dev/render=true"), ("wide", "firsttoken.dev/scale=true")):
            cluster.kubectl("create", "namespace", name)
            cluster.kubectl("label", "namespace", name, label)
        cluster.kubectl("create", "namespace", "closed")
        cluster.kubectl("create", "secret", "generic", "another-tenants", "-n", "team", "--from-literal=password=x")
        cluster.kubectl("create", "secret", "generic", "ngc", "-n", "team", "--from-literal=NGC_API_KEY=x")
        for name in ("ngc-secret", "ngc-api-secret", "hf-token"):
            cluster.kubectl("create", "secret", "generic", name, "-n", "team", "--from-literal=key=x")
        for name in ("ngc", "ngc-secret", "ngc-api-secret", "hf-token"):
            cluster.kubectl("label", "secret", name, "-n", "team", "firsttoken.dev/render=true")
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_claim("nim-cache", {"firsttoken.dev/render": "true"})))
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_claim("another-tenants")))
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_claim("weights", {"firsttoken.dev/render": "true"})))
        for manifest in (
            _deployment("coredns", "kube-system"), _deployment("foreign", "team"), _deployment("opened", "team", OPEN),
            _deployment("any", "wide"), _deployment("kept", "wide", {"firsttoken.dev/scale": "false"}),
        ):  # fmt: skip
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        made = Operator(cluster, account)
        # The API server reads a new policy, and its parameters, within a second or so.
        wait_until(lambda: made.scale("coredns", "kube-system").returncode != 0, 60, "the policies in force")
        wait_until(lambda: made.apply(deployment(rendering("probe", "closed"))).returncode != 0, 60, "all of them")
        wait_until(lambda: made.apply(groups("probe", "closed")).returncode != 0, 60, "those of groups")
        wait_until(lambda: made.apply(keeper("probe", "closed")).returncode != 0, 60, "those of images")
        yield made


def _deployment(name: str, namespace: str, labels: dict[str, str] | None = None) -> Json:
    made = workload(1, name)
    made["metadata"] |= {"namespace": namespace, "labels": labels or {}}
    return made


def _claim(name: str, labels: dict[str, str] | None = None) -> Json:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "team", "labels": labels or {}},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip


@pytest.mark.parametrize(("name", "namespace"), [("coredns", "kube-system"), ("foreign", "team"), ("kept", "wide")])
def test_a_deployment_that_is_not_open_to_scaling_is_not_scaled(operator: Operator, name: str, namespace: str) -> None:
    refused(operator.scale(name, namespace), f"Deployment {name} is not open to scaling: label it, or its namespace")


@pytest.mark.parametrize(("name", "namespace"), [("opened", "team"), ("any", "wide")])
def test_one_that_is_open_by_its_own_label_or_its_namespaces_is_scaled(
    operator: Operator, name: str, namespace: str
) -> None:
    for replicas in (3, 1, 0):
        allowed(operator.scale(name, namespace, replicas))


def test_the_example_that_users_begin_with_is_open_to_scaling(operator: Operator) -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples/call-center.yaml").read_text()))
    (declared,) = (each for each in documents if each["kind"] == "InferenceDeployment")
    namespace, target = declared["metadata"]["namespace"], declared["spec"]["targetRef"]["name"]
    for manifest in (*documents, _deployment(target, namespace)):
        operator.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    allowed(operator.scale(target, namespace))


def test_a_foreign_deployment_is_not_patched(operator: Operator) -> None:
    taken, orphan = deployment(rendering("foreign")), deployment(rendering("orphan"))
    # As it is, but for its owner.
    taken["spec"] = _deployment("foreign", "team")["spec"]
    del orphan["metadata"]["ownerReferences"]
    for manifest in (taken, orphan):
        refused(operator.apply(manifest), "only objects that an InferenceDeployment of the same name owns")


def test_what_the_operator_renders_is_taken(operator: Operator) -> None:
    created = operator.cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(declared("good"))).stdout
    uid = json.loads(created)["metadata"]["uid"]
    made = rendering(
        "good", uid=uid, authSecret={"name": "ngc"}, imagePullSecrets=["ngc"], modelCache={"claimName": "weights"},
        runtimeClassName="nvidia",
    )  # fmt: skip
    for manifest in manifests(made):
        allowed(operator.apply(manifest))
    allowed(operator.scale("good"))
    # Once more, over what is there: an update.
    allowed(operator.apply(deployment(rendering("good", uid=uid, image="nvcr.io/nim/meta/llama3-8b-instruct:1.0.4"))))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_each_server_is_told_is_taken(operator: Operator, path: Path) -> None:
    (declared,) = yaml.safe_load_all(path.read_text())
    declared["metadata"]["namespace"] = "team"
    created = operator.cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(declared)).stdout
    for manifest in yaml.safe_load_all(golden(path).read_text()):
        manifest["metadata"]["ownerReferences"][0]["uid"] = json.loads(created)["metadata"]["uid"]
        if manifest["kind"] in POD_KINDS:
            # Images are the administrator's choice.
            for template in templates(manifest):
                template["spec"]["containers"][0]["image"] = "nvcr.io/nim/any:1"
        allowed(operator.apply(manifest))


def test_a_budget_that_lets_no_pod_be_evicted_is_refused(operator: Operator) -> None:
    manifest = disruption_budget(rendering())
    manifest["spec"]["maxUnavailable"] = 0
    refused(operator.apply(manifest), "of which one at a time may be evicted")


def test_a_namespace_that_is_not_open_to_rendering_gets_nothing(operator: Operator) -> None:
    made = rendering(namespace="closed")
    for manifest in (service(made), deployment(made)):
        refused(operator.apply(manifest), "namespace closed is not open to rendering: label it")


Harm = Callable[[Json, Json], Any]
"""Changes the pod and its container."""


def _container(**fields: Any) -> tuple[Harm, str]:
    return lambda _, c: c.update(fields), "without privileges"


def _pod(**fields: Any) -> tuple[Harm, str]:
    return lambda p, _: p.update(fields), '"restricted"'


def _container_security(**fields: Any) -> tuple[Harm, str]:
    return lambda _, c: c["securityContext"].update(fields), "without privileges"


def _pod_security(**fields: Any) -> tuple[Harm, str]:
    return lambda p, _: p["securityContext"].update(fields), '"restricted"'


def _variable(source: Json) -> tuple[Harm, str]:
    return lambda _, c: c["env"].append({"name": "LD_PRELOAD", "valueFrom": source}), "without privileges"


UNCONFINED = {"type": "Unconfined"}
ELSEWHERE = {"host": "169.254.169.254", "port": 80}
CLAIM = {"name": "device", "resourceClaimName": "another-teams"}
HARMS: dict[str, tuple[Harm, str]] = {
    "privileged": (lambda _, c: c.update(securityContext={"privileged": True}), "without privileges"),
    "escalation": (lambda _, c: c["securityContext"].update(allowPrivilegeEscalation=True), "without privileges"),
    "capability": (lambda _, c: c["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]), "without privileges"),
    "root in the container": (lambda _, c: c["securityContext"].update(runAsUser=0), "without privileges"),
    "host port": (lambda _, c: c["ports"][0].update(hostPort=8000), "without privileges"),
    "command": (lambda _, c: c.update(command=["sh"]), "without privileges"),
    "command with more words": (lambda _, c: c.update(command=["vllm", "serve", "--api-key=x"]), "without privileges"),
    "another module": (lambda _, c: c.update(command=["python3", "-m", "pip"]), "without privileges"),
    "words for the image's own command": (lambda _, c: c.update(args=["x"]), "without privileges"),
    "flag that loads code": (
        lambda _, c: c.update(command=["vllm", "serve"], args=["x", "--trust-remote-code"]), "without privileges",
    ),
    "flag in its short form": (
        lambda _, c: c.update(command=["vllm", "serve"], args=["x", "-tp", "2"]), "without privileges",
    ),
    "labels of another pod as files": (
        lambda p, _: p["volumes"].append({"name": "f", "downwardAPI": {"items": [
            {"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]}}), '"restricted"',
    ),
    "all of a secret": (lambda _, c: c.update(envFrom=[{"secretRef": {"name": "ngc"}}]), "without privileges"),
    "root": (lambda p, _: p["securityContext"].update(runAsUser=0), '"restricted"'),
    "may be root": (lambda p, _: p["securityContext"].update(runAsNonRoot=False), '"restricted"'),
    "host network": (lambda p, _: p.update(hostNetwork=True), '"restricted"'),
    "host processes": (lambda p, _: p.update(hostPID=True), '"restricted"'),
    "host path": (lambda p, _: p["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), '"restricted"'),
    "secret volume": (lambda p, _: p["volumes"].append({"name": "s", "secret": {"secretName": "ngc"}}), '"restricted"'),
    "token": (lambda p, _: p.update(automountServiceAccountToken=True), '"restricted"'),
    "account": (lambda p, _: p.update(serviceAccountName="admin"), '"restricted"'),
    "second container": (lambda p, c: p.update(initContainers=[{"name": "a", "image": c["image"]}]), '"restricted"'),
    "node": (lambda p, _: p.update(nodeName="node-0"), '"restricted"'),
    "SELinux of the pod": _pod_security(seLinuxOptions={"type": "spc_t"}),
    "SELinux of the container": _container_security(seLinuxOptions={"type": "spc_t"}),
    "AppArmor of the pod": _pod_security(appArmorProfile=UNCONFINED),
    "AppArmor of the container": _container_security(appArmorProfile=UNCONFINED),
    "root's group": _pod_security(supplementalGroups=[0]),
    "root's group by the primary one": _pod_security(runAsGroup=0),
    "root's group by the container": _container_security(runAsGroup=0),
    "root's group by the volumes": _pod_security(fsGroup=0),
    "no seccomp in the container": _container_security(seccompProfile=UNCONFINED),
    "command after the start": _container(lifecycle={"postStart": {"exec": {"command": ["sh"]}}}),
    "command before the end": _container(lifecycle={"preStop": {"exec": {"command": ["sh"]}}}),
    "request before the end": _container(lifecycle={"preStop": {"httpGet": ELSEWHERE}}),
    "command as a probe": _container(livenessProbe={"exec": {"command": ["sh"]}}),
    "probe of another host": _container(readinessProbe={"httpGet": ELSEWHERE}),
    "connection to another host": _container(startupProbe={"tcpSocket": ELSEWHERE}),
    "config map": _variable({"configMapKeyRef": {"name": "another-teams", "key": "k"}}),
    "all of a config map": _container(envFrom=[{"configMapRef": {"name": "another-teams"}}]),
    "device of another": _pod(resourceClaims=[CLAIM]),
    "account by its old name": _pod(serviceAccount="admin"),
    "priority": (lambda p, _: p.update(priorityClassName="system-node-critical"), '"restricted"'),
    "image": (lambda _, c: c.update(image="nvcr.io.evil.example/nim:1"), "image nvcr.io.evil.example/nim:1 is not"),
    "port of a registry as a tag": (lambda _, c: c.update(image="nim:5000/evil/x"), "image nim:5000/evil/x is not"),
    "runtime class": (lambda p, _: p.update(runtimeClassName="kata"), "runtime class kata is not allowed"),
    "toleration": (
        lambda p, _: p["tolerations"].append({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}),
        "a toleration is not allowed",
    ),
    "every taint": (lambda p, _: p["tolerations"].append({"operator": "Exists"}), "a toleration is not allowed"),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
def test_a_pod_beyond_what_is_allowed_is_refused(operator: Operator, harm: str) -> None:
    change, message = HARMS[harm]
    manifest = deployment(rendering())
    pod = manifest["spec"]["template"]["spec"]
    change(pod, pod["containers"][0])

    refused(operator.apply(manifest), message)


@pytest.mark.parametrize("harm", ["privileged", "command", "host network", "secret volume", "image", "runtime class"])
@pytest.mark.parametrize("of", [0, 1], ids=["leader", "worker"])
def test_neither_pod_of_a_group_may_do_more(operator: Operator, of: int, harm: str) -> None:
    change, message = HARMS[harm]
    manifest = groups()
    pod = templates(manifest)[of]["spec"]
    change(pod, pod["containers"][0])

    refused(operator.apply(manifest), message)


def test_a_group_is_its_owners_and_has_no_claims_of_its_own(operator: Operator) -> None:
    orphan, claiming = groups(), groups()
    del orphan["metadata"]["ownerReferences"]
    claim = {"metadata": {"name": "dshm"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claiming["spec"]["leaderWorkerTemplate"]["volumeClaimTemplates"] = [claim]

    refused(operator.apply(orphan), "only objects that an InferenceDeployment of the same name owns")
    refused(operator.apply(claiming), "without claims and parts of their own")
    secret = groups(authSecret={"name": "another-tenants", "key": "password"})
    refused(operator.apply(secret), "Secret another-tenants is not open to rendering: label it")


IDLE = "do nothing and have no GPU"
KEEPER_HARMS: dict[str, tuple[Harm, str]] = {
    name: HARMS[name]
    for name in (
        "privileged", "capability", "root", "root in the container", "host network", "token", "account",
        "priority", "image", "toleration", "every taint", "command", "second container",
    )
} | {
    "another server's start": (lambda _, c: c.update(command=["vllm", "serve"], args=["x"]), "without privileges"),
    "words": (lambda _, c: c.update(args=["1"]), IDLE),
    "no command": (lambda _, c: c.pop("command"), IDLE),
    "GPU": (lambda _, c: c["resources"]["limits"].update({"nvidia.com/gpu": "1"}), IDLE),
    "no limits": (lambda _, c: c.pop("resources"), IDLE),
    "all GPUs": (lambda _, c: c["env"][0].update(value="all"), IDLE),
    "the image's own GPUs": (lambda _, c: c.pop("env"), IDLE),
    "variable": (lambda _, c: c["env"].append({"name": "LD_PRELOAD", "value": "x"}), IDLE),
    "a secret as a variable": (
        lambda _, c: c["env"].append(
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "ngc", "key": "NGC_API_KEY"}}}
        ), IDLE,
    ),
    "port": (lambda _, c: c.update(ports=[{"containerPort": 8000}]), IDLE),
    "probe": (lambda _, c: c.update(livenessProbe={"httpGet": {"port": 80}}), IDLE),
    "volume": (lambda p, _: p.update(volumes=[{"name": "v", "emptyDir": {}}]), "without volumes"),
    "every node": (lambda p, _: p.pop("affinity"), "nodes that a label names"),
    "every node but some": (
        lambda p, _: p["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"][0]["matchExpressions"][0].update(operator="NotIn"), "nodes that a label names",
    ),
    "every node by one term": (
        lambda p, _: p["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"].append({"matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": ["none"]}]}), "nodes that a label names",
    ),
    "nodes that no other pod may have": (
        lambda p, _: p["affinity"].update(podAntiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}), "nodes that a label names",
    ),
}  # fmt: skip


@pytest.mark.parametrize("harm", KEEPER_HARMS)
def test_a_pod_that_keeps_an_image_does_nothing_else(operator: Operator, harm: str) -> None:
    change, message = KEEPER_HARMS[harm]
    manifest = keeper()
    pod = manifest["spec"]["template"]["spec"]
    change(pod, pod["containers"][0])

    refused(operator.apply(manifest), message)


def test_what_keeps_an_image_is_its_owners_and_answers_for_no_replica(operator: Operator) -> None:
    orphan, called = keeper(), keeper()
    del orphan["metadata"]["ownerReferences"]
    called["spec"]["template"]["metadata"]["labels"]["app"] = "anothers-service-selects-this"

    refused(operator.apply(orphan), "only objects that an InferenceDeployment of the same name owns")
    refused(operator.apply(called), "that no Service leads to")
    refused(operator.apply(keeper(namespace="closed")), "namespace closed is not open to rendering")
    refused(
        operator.apply(keeper(imagePullSecrets=["another-tenants"])),
        "Secret another-tenants is not open to rendering: label it",
    )


def test_it_deletes_what_keeps_an_image_for_a_resource_and_no_other_daemon_set(operator: Operator) -> None:
    cluster = operator.cluster
    created = cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(declared("kept"))).stdout
    own, foreign = keeper("kept"), keeper("network-plugin")
    own["metadata"]["ownerReferences"][0]["uid"] = json.loads(created)["metadata"]["uid"]
    del foreign["metadata"]["ownerReferences"]
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(foreign))
    allowed(operator.apply(own))

    def deleted(name: str) -> Attempt:
        return cluster.kubectl("delete", "daemonset", name, "-n", "team", kubeconfig=operator.account, check=False)

    refused(deleted("network-plugin"), "only objects that an InferenceDeployment of the same name owns")
    cluster.kubectl("label", "namespace", "team", "firsttoken.dev/render-")
    try:
        wait_until(lambda: operator.apply(own).returncode != 0, 60, "the namespace closed")
        allowed(deleted("kept"))
    finally:
        cluster.kubectl("label", "namespace", "team", "firsttoken.dev/render=true", "--overwrite")
        wait_until(lambda: operator.apply(own).returncode == 0, 60, "the namespace open again")


@pytest.mark.parametrize(
    "annotation",
    [
        "container.apparmor.security.beta.kubernetes.io/nim",
        "container.seccomp.security.alpha.kubernetes.io/nim",
        "k8s.v1.cni.cncf.io/networks",
        "sidecar.istio.io/inject",
        "vault.hashicorp.com/agent-inject-secret-x",
    ],
)
def test_an_annotation_that_could_grant_something_is_refused(operator: Operator, annotation: str) -> None:
    manifest = deployment(rendering())
    manifest["spec"]["template"]["metadata"]["annotations"] = {annotation: "unconfined"}

    refused(operator.apply(manifest), '"restricted"')


def test_what_another_writer_added_is_in_the_way_of_no_write(operator: Operator) -> None:
    created = operator.cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(declared("shared"))).stdout
    uid = json.loads(created)["metadata"]["uid"]
    made = rendering("shared", uid=uid)
    for manifest in (pod_monitor(made), deployment(made)):
        allowed(operator.apply(manifest))
    operator.cluster.kubectl("rollout", "restart", "deployment/shared", "-n", "team")
    limit = json.dumps({"spec": {"sampleLimit": 5000}})
    operator.cluster.kubectl("patch", "podmonitor", "shared", "-n", "team", "--type=merge", "-p", limit)
    changed = rendering("shared", uid=uid, image="nvcr.io/nim/meta/llama3-8b-instruct:1.0.4", metricsPath="/other")
    for manifest in (pod_monitor(changed), deployment(changed)):
        allowed(operator.apply(manifest))
    worse = pod_monitor(changed)
    worse["spec"]["sampleLimit"] = 9000
    refused(operator.apply(worse), "PodMonitors of its own pods")


@pytest.mark.parametrize(
    "change",
    [
        {"relabelings": [{"targetLabel": "namespace", "replacement": "another"}]},
        {"relabelings": [{"targetLabel": "__address__", "replacement": "169.254.169.254:80"}]},
        {"metricRelabelings": [{"targetLabel": "namespace", "replacement": "another"}]},
        {"params": {"target": ["http://169.254.169.254"]}}, {"scheme": "https"}, {"honorLabels": True},
        {"proxyUrl": "http://proxy:3128"}, {"bearerTokenSecret": {"name": "ngc", "key": "NGC_API_KEY"}},
    ],
    ids=lambda change: "-".join(change),
)  # fmt: skip
def test_a_monitor_that_forges_a_label_or_leads_elsewhere_is_refused(operator: Operator, change: Json) -> None:
    manifest = pod_monitor(rendering())
    manifest["spec"]["podMetricsEndpoints"][0] |= change

    refused(operator.apply(manifest), "PodMonitors of its own pods")


@pytest.mark.parametrize(
    "change",
    [{"namespaceSelector": {"any": True}}, {"podTargetLabels": ["namespace"]}, {"scrapeClass": "with-credentials"}],
    ids=lambda change: "-".join(change),
)
def test_a_monitor_of_other_pods_or_with_a_tenants_labels_is_refused(operator: Operator, change: Json) -> None:
    manifest = pod_monitor(rendering())
    manifest["spec"] |= change

    refused(operator.apply(manifest), "PodMonitors of its own pods")


def test_a_service_that_leads_out_of_the_cluster_is_refused(operator: Operator) -> None:
    for change in ({"type": "LoadBalancer"}, {"externalIPs": ["192.0.2.1"]}, {"selector": {"app": "another"}}):
        manifest = service(rendering())
        manifest["spec"] |= change
        refused(operator.apply(manifest), "Services inside the cluster")


def test_a_secret_or_a_claim_without_the_label_gets_into_no_pod(operator: Operator) -> None:
    for runtime, what in (
        ({"authSecret": {"name": "another-tenants", "key": "password"}}, "Secret another-tenants"),
        ({"imagePullSecrets": ["another-tenants"]}, "Secret another-tenants"),
        ({"modelCache": {"claimName": "another-tenants"}}, "PersistentVolumeClaim another-tenants"),
    ):
        refused(operator.apply(deployment(rendering(**runtime))), f"{what} is not open to rendering: label it")


def test_in_its_own_namespace_it_keeps_its_own_objects_only(operator: Operator) -> None:
    for kind, name, accepted in (
        ("ConfigMap", "firsttoken-sizings-0", True), ("ConfigMap", "kube-root-ca-of-mine", False),
        ("Lease", "firsttoken", True), ("Lease", "another-operators", False),
    ):  # fmt: skip
        attempt = operator.create(_named(kind, name))
        if accepted:
            allowed(attempt)
        else:
            refused(attempt, "its Lease and its sizings and no other object")


def _named(kind: str, name: str, namespace: str = NAMESPACE) -> Json:
    api_version = {"ConfigMap": "v1", "Lease": "coordination.k8s.io/v1"}[kind]
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def test_two_releases_with_one_account_lock_each_other_out_rather_than_share_their_rights(operator: Operator) -> None:
    cluster, shared = operator.cluster, "shared"
    cluster.kubectl("create", "namespace", shared)
    cluster.kubectl("create", "serviceaccount", shared, "-n", shared)
    sets = ("--set", f"serviceAccount.create=false,serviceAccount.name={shared},crds.enabled=false")

    def install(release: str) -> Operator:
        every = parsed(run_helm("template", release, CHART, "--namespace", shared, *sets).stdout)
        wanted = [each for each in every if "Role" in each["kind"] or "ValidatingAdmission" in each["kind"]]
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
        return Operator(cluster, cluster.service_account_kubeconfig(shared, shared))

    try:
        account = install("first")
        allowed(account.create(_named("Lease", "first-firsttoken", shared)))
        install("second")
        sizing, message = "first-firsttoken-sizings", "its Lease and its sizings and no other object"
        refusal = partial(account.create, _named("ConfigMap", f"{sizing}-0", shared))
        wait_until(lambda: message in refusal().stderr, 60, "the second release's policies in force")
        refused(account.create(_named("ConfigMap", f"{sizing}-1", shared)), message)
        refused(account.create(_named("Lease", "second-firsttoken", shared)), message)
    finally:
        kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding"
        cluster.kubectl("delete", kinds, "-l", "app.kubernetes.io/instance in (first, second)")


def _event(name: str, about: Json, component: str) -> Json:
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "team"}, "reason": "ScaledUp",
        "message": "m", "type": "Normal", "involvedObject": about | {"namespace": "team", "name": "chat"},
        "source": {"component": component}, "reportingComponent": component,
    }  # fmt: skip


OURS = {"apiVersion": "firsttoken.dev/v1alpha1", "kind": "InferenceDeployment"}
POD = {"apiVersion": "v1", "kind": "Pod"}


def test_it_tells_events_of_its_own_resources_and_rewrites_no_other(operator: Operator) -> None:
    message = "Events of its own resources, and changes no other Event"
    for name, about in (("of-a-pod", POD), ("of-ours", OURS)):
        operator.cluster.kubectl("create", "-f", "-", stdin=json.dumps(_event(name, about, "kubelet")))
    own = _event("own", OURS, COMPONENT)
    allowed(operator.create(own))
    # NB: an apply, since `kubectl patch` reads first, and the operator has no right to read Events.
    allowed(operator.apply(own | {"count": 2}))
    refused(operator.create(_event("about-a-pod", POD, COMPONENT)), message)
    refused(operator.create(_event("in-anothers-name", OURS, "kubelet")), message)
    for name, about in (("of-a-pod", POD), ("of-ours", OURS)):
        refused(operator.apply(_event(name, about, "kubelet") | {"message": "another"}), message)
        refused(operator.apply(_event(name, OURS, COMPONENT)), message)


class Tenant:
    """A user who may declare in the namespace `team`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._give("tenant", "--verb=get,create,patch", "--resource=inferencedeployments.firsttoken.dev")

    def declare(self, name: str, **runtime: Any) -> Attempt:
        """Declare as this user does."""
        stdin = json.dumps(declared(name, **runtime))
        return self.cluster.kubectl("apply", "-f", "-", "--as", TENANT, stdin=stdin, check=False)

    def may_read(self, *secrets: str) -> None:
        """Give the right to read these Secrets; it is in force a little later."""
        self._give("reader", "--verb=get", "--resource=secrets", *(f"--resource-name={name}" for name in secrets))

    def may_read_nothing(self) -> None:
        """Take that right away."""
        self.cluster.kubectl("delete", "role,rolebinding", "reader", "-n", "team", "--ignore-not-found")

    def _give(self, role: str, *rights: str) -> None:
        self.cluster.kubectl("create", "role", role, "-n", "team", *rights)
        self.cluster.kubectl("create", "rolebinding", role, "-n", "team", f"--role={role}", f"--user={TENANT}")


@pytest.fixture(scope="module")
def tenant(operator: Operator) -> Tenant:
    return Tenant(operator.cluster)


def test_a_tenant_names_no_secret_that_it_may_not_read_itself(tenant: Tenant) -> None:
    allowed(tenant.declare("plain"))
    wanted = {"authSecret": {"name": "not-there-yet"}}
    refused(tenant.declare("asks", **wanted), f"{TENANT} may not read Secret not-there-yet")
    refused(tenant.declare("asks", imagePullSecrets=["not-there-yet"]), "may not read one of these Secrets")
    tenant.may_read("not-there-yet")
    wait_until(lambda: tenant.declare("asks", **wanted).returncode == 0, 60, "the right in force")
    tenant.may_read_nothing()
    wait_until(lambda: tenant.declare("again", **wanted).returncode != 0, 60, "the right gone")
    # What is named already stays: a controller without the right changes the image. Another key is not named already.
    allowed(tenant.declare("asks", image="nvcr.io/nim/meta/llama3-8b-instruct:1.0.4", **wanted))
    another = {"authSecret": {"name": "not-there-yet", "key": "password"}}
    refused(tenant.declare("asks", **another), f"{TENANT} may not read Secret not-there-yet")


def test_as_many_pull_secrets_as_the_api_takes_are_each_judged(tenant: Tenant) -> None:
    most = [f"pull-{i}" for i in range(MOST_PULL_SECRETS)]
    stdin = json.dumps(declared("administrators", imagePullSecrets=most))
    allowed(tenant.cluster.kubectl("apply", "-f", "-", stdin=stdin, check=False))
    tenant.may_read(*most)
    wanted = {"imagePullSecrets": most, "authSecret": {"name": most[0]}}
    wait_until(lambda: tenant.declare("many", **wanted).returncode == 0, 60, "the right in force")
    for position in range(MOST_PULL_SECRETS):
        one = [*most[:position], "another-tenants", *most[position + 1 :]]
        refused(tenant.declare(f"many-{position}", imagePullSecrets=one), "may not read one of these Secrets")
    tenant.may_read_nothing()


def test_the_policies_are_well_typed(operator: Operator) -> None:
    wait_until(lambda: len(_checked(operator.cluster)) == len(_policies()), 60, "types checked")
    warnings = {
        name: [warning["warning"] for warning in policy["status"].get("typeChecking", {}).get("expressionWarnings", ())]
        for name, policy in _checked(operator.cluster).items()
    }

    assert not any(warnings.values()), warnings


def _policies() -> list[Json]:
    return of_kind(render("render.enabled=true", GROUPS, PRE_PULL), "ValidatingAdmissionPolicy")


def _checked(cluster: Cluster) -> dict[str, Json]:
    items = json.loads(cluster.kubectl("get", "validatingadmissionpolicies", "-o", "json").stdout)["items"]
    return {
        item["metadata"]["name"]: item
        for item in items
        if item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
    }
