"""A real Kubernetes control plane on this machine, without containers and without root, for tests and the demo.

    with Cluster(nodes=8, ready_delay_seconds=5, prometheus=PrometheusOptions()) as cluster:
        cluster.kubectl("apply", "-f", "examples/call-center.yaml")

etcd, kube-apiserver (RBAC on), kube-controller-manager, kube-scheduler, kwok with GPU servers, and Prometheus: built
once from pinned modules into a cache, ready in seconds, gone with the process that started them. It is no part of the
product: nothing under `operator/` or `sizing/` imports it.
"""

from tools.cluster.build import control_plane, keda_programs
from tools.cluster.cache import cache_root, cached
from tools.cluster.components import ControllerOptions
from tools.cluster.emulation import GpuServers
from tools.cluster.local_cluster import Cluster
from tools.cluster.pki import Authority
from tools.cluster.ports import PortLease, lease_port
from tools.cluster.process import Component, ComponentFailedError
from tools.cluster.progress import SetupError, exit_status, report, run_with_progress, under_way
from tools.cluster.prometheus import Prometheus, PrometheusOptions
from tools.cluster.tools import helm, kubectl
from tools.cluster.waiting import answers, wait_until, wait_until_established

__all__ = [
    "Authority",
    "Cluster",
    "Component",
    "ComponentFailedError",
    "ControllerOptions",
    "GpuServers",
    "PortLease",
    "Prometheus",
    "PrometheusOptions",
    "SetupError",
    "answers",
    "cache_root",
    "cached",
    "control_plane",
    "exit_status",
    "helm",
    "keda_programs",
    "kubectl",
    "lease_port",
    "report",
    "run_with_progress",
    "under_way",
    "wait_until",
    "wait_until_established",
]
