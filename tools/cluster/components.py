"""The command lines of the control plane: which flags make five servers of a data center one test's own cluster.

Only lists of arguments; starting, waiting and stopping is `local_cluster`. Durability, leader election, profiling and
rate limits are off or wide open, because one client owns the whole cluster for a few minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.cluster.emulation import FAKE_NODE_ANNOTATION
from tools.cluster.pki import FRONT_PROXY, ClusterKeys

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "statefulset-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
    # NB: admission taints every new node as not ready, and only this controller takes the taint off.
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    # Compiles the expressions of policies and says what is wrong with their types.
    "validatingadmissionpolicy-status-controller",
    "serviceaccount-token-controller",
    "taint-eviction-controller",
)
WORKLOAD_CONTROLLERS = ("deployment-controller", "replicaset-controller", "daemonset-controller")
ISSUER = "https://kubernetes.default.svc.cluster.local"
"""Issuer and default audience of ServiceAccount tokens."""
OPEN_PATHS = "/healthz,/readyz,/livez,/metrics"
CLIENT_RATE = ("--kube-api-qps=200", "--kube-api-burst=400")


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Options of the controller manager. Without `pods_follow` no pod is made or deleted for a Deployment.

    `autoscaler_sync_seconds` is the period of the HorizontalPodAutoscaler, 15 in a cluster where it is not set, and
    `autoscaler_workers` how many it looks at in parallel, 5 there.
    """

    pods_follow: bool = True
    autoscaler_sync_seconds: float = 2.0
    autoscaler_workers: int = 5
    client_rate: tuple[str, ...] = CLIENT_RATE


DEFAULT_CONTROLLERS = ControllerOptions()


@dataclass(frozen=True, slots=True)
class Ports:
    """The TCP ports of one control plane, all on 127.0.0.1."""

    etcd: int
    etcd_peers: int
    api: int
    controllers: int
    scheduler: int
    kwok: int

    @property
    def etcd_url(self) -> str:
        """URL of etcd, for the API server."""
        return f"http://127.0.0.1:{self.etcd}"

    @property
    def api_url(self) -> str:
        """URL of the API server, for everything else."""
        return f"https://127.0.0.1:{self.api}"


def etcd(ports: Ports, folder: Path) -> list[str]:
    """One member without fsync: what it holds ends with the test."""
    peers = f"http://127.0.0.1:{ports.etcd_peers}"
    return [
        f"--data-dir={folder / 'etcd-data'}",
        f"--listen-client-urls={ports.etcd_url}",
        f"--advertise-client-urls={ports.etcd_url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(ports: Ports, folder: Path, keys: ClusterKeys) -> list[str]:
    """RBAC on; the admin certificate is in `system:masters`, everything else needs a role. APIs can be aggregated."""
    return [
        f"--etcd-servers={ports.etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.api}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={keys.server.certificate}",
        f"--tls-private-key-file={keys.server.key}",
        f"--client-ca-file={keys.ca}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={keys.service_accounts.certificate}",
        f"--service-account-signing-key-file={keys.service_accounts.key}",
        "--enable-priority-and-fairness=false",
        "--profiling=false",
        f"--requestheader-client-ca-file={keys.front_proxy_ca}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={keys.front_proxy.certificate}",
        f"--proxy-client-key-file={keys.front_proxy.key}",
    ]


def kube_controller_manager(
    ports: Ports,
    folder: Path,
    keys: ClusterKeys,
    kubeconfig: Path,
    options: ControllerOptions = DEFAULT_CONTROLLERS,
) -> list[str]:
    """The controllers that workloads need, and no cloud or volume ones."""
    controllers = (*CONTROLLERS, *(WORKLOAD_CONTROLLERS if options.pods_follow else ()))
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.controllers}",
        f"--cert-dir={folder}",
        f"--service-account-private-key-file={keys.service_accounts.key}",
        f"--root-ca-file={keys.ca}",
        f"--authorization-always-allow-paths={OPEN_PATHS}",
        "--concurrent-deployment-syncs=10",
        f"--horizontal-pod-autoscaler-sync-period={options.autoscaler_sync_seconds:g}s",
        f"--concurrent-horizontal-pod-autoscaler-syncs={options.autoscaler_workers}",
        # A busy test machine may delay kwok's heartbeats; a node lost to that would be no finding.
        "--node-monitor-grace-period=5m",
        f"--controllers={','.join(controllers)}",
        *options.client_rate,
    ]


def kube_scheduler(ports: Ports, folder: Path, kubeconfig: Path) -> list[str]:
    """The default profile."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.scheduler}",
        f"--cert-dir={folder}",
        f"--authorization-always-allow-paths={OPEN_PATHS}",
        *CLIENT_RATE,
    ]


def kwok(ports: Ports, kubeconfig: Path, stages: Path) -> list[str]:
    """The kubelets of all nodes with the fake-node annotation."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE_ANNOTATION}=fake",
        "--cidr=10.64.0.0/16",
        "--node-ip=127.0.0.1",
        f"--node-port={ports.kwok}",
        f"--server-address=127.0.0.1:{ports.kwok}",
        "--node-lease-duration-seconds=40",
    ]
