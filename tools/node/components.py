"""Command lines and configuration files of a node: what differs from `tools.cluster.components`, and what is new.

Only lists of arguments and documents; starting and waiting is `node`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.cluster import components
from tools.cluster.components import Ports
from tools.cluster.pki import ClusterKeys

NAME = "node-1"
ADDRESS = "10.244.0.1"
"""Address of the node, of the pods' bridge, of the API server and of the DNS server."""
PODS = "10.244.0.0/24"
KUBELET = f"system:node:{NAME}"
KUBE_PROXY = "system:kube-proxy"
USERS = {KUBELET: "system:nodes", KUBE_PROXY: None}
PORTS = Ports(etcd=2379, etcd_peers=2380, api=6443, controllers=10257, scheduler=10259, kwok=0)
PAUSE = "localhost/pause:1"
CNI_PROGRAMS = "/usr/lib/cni"
_NOT_OF_A_NODE = (
    "--bind-address=", "--advertise-address=", "--authorization-mode=", "--endpoint-reconciler-type=",
)  # fmt: skip


def kube_apiserver(folder: Path, keys: ClusterKeys) -> list[str]:
    """Reachable from pods, at its Service too; kubelets may do what a kubelet may; it may ask them for logs."""
    local = components.kube_apiserver(PORTS, folder, keys)
    return [
        *(argument for argument in local if not argument.startswith(_NOT_OF_A_NODE)),
        "--bind-address=0.0.0.0",
        f"--advertise-address={ADDRESS}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={keys.admin.certificate}",
        f"--kubelet-client-key={keys.admin.key}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def kubelet(folder: Path, kubeconfig: Path, config: Path) -> list[str]:
    """The node's agent."""
    return [
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'kubelet-pki'}",
        f"--hostname-override={NAME}",
        f"--node-ip={ADDRESS}",
    ]


def kubelet_config(folder: Path, keys: ClusterKeys) -> dict[str, Any]:
    """The kubelet's configuration."""
    percent = "1%"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys.ca)},
        },
        "authorization": {"mode": "Webhook"},
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        "resolvConf": str(folder / "resolv.conf"),
        "clusterDomain": "cluster.local",
        "clusterDNS": [ADDRESS],
        # The disk is shared with the rest of the machine: never delete images or evict pods because it is full.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            **dict.fromkeys(("nodefs.available", "imagefs.available"), percent),
            **dict.fromkeys(("nodefs.inodesFree", "imagefs.inodesFree"), percent),
        },
        "volumePluginDir": str(folder / "volume-plugins"),
        "podLogsDir": str(folder / "pod-logs"),
        "nodeStatusUpdateFrequency": "5s",
        # Pods of a test are looked at and restarted as soon as their probes say so.
        "syncFrequency": "5s",
    }


def kube_proxy_config(kubeconfig: Path) -> dict[str, Any]:
    """Services by nftables; limits of connections belong to the machine."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": PODS,
        "hostnameOverride": NAME,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def corefile(kubeconfig: Path) -> str:
    """Names of Services and nothing else: there is no other network."""
    return f"cluster.local:53 {{\n  errors\n  kubernetes {{\n    kubeconfig {kubeconfig} local\n  }}\n}}\n"


def containerd_config(folder: Path) -> str:
    """Containerd 1.6, Debian's."""
    return f"""
version = 2
root = "{folder / "containerd"}"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true    # without CAP_SYS_RESOURCE, -998 for the pause container is refused
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "{folder / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "runc"
"""


def network_config(folder: Path) -> dict[str, Any]:
    """One bridge; addresses from .10 on."""
    ranges = [[{"subnet": PODS, "rangeStart": f"{ADDRESS.rpartition('.')[0]}.10", "gateway": ADDRESS}]]
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": ranges,
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "node", "plugins": [bridge]}
