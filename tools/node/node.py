"""One real node with its control plane, from `with` to the end of the block."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import yaml

from tools.cluster import Component, GpuServers, control_plane, helm, kubectl, wait_until
from tools.cluster import components as control
from tools.cluster.build import PROMETHEUS_VERSION, node_programs
from tools.cluster.pki import ClusterKeys, certificate_user, write_cluster_keys, write_kubeconfig
from tools.image import debian
from tools.image.debian import machine
from tools.node import components
from tools.node.components import ADDRESS, KUBE_PROXY, KUBELET, NAME, PORTS
from tools.node.oci import write_archive

REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 120.0
END_SECONDS = 25.0
PROMETHEUS = f"localhost/prometheus:{PROMETHEUS_VERSION}"


def missing() -> str:
    """Say why this machine cannot run a node; empty where it can."""
    if reason := debian.missing():
        return reason
    v1 = [line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.split(":")[1]]
    return "" if v1 else "needs cgroup v1 hierarchies"


class Node:
    """A node with the images of these archives, Prometheus's, and `gpus` GPUs that no device plugin knows.

    Logs are in `folder`; they are deleted at the end, unless the block raised or `keep_logs` was called.
    """

    def __init__(self, *, images: Sequence[Path], gpus: int = 8) -> None:
        self._archives, self._gpus = list(images), gpus
        self._components: list[Component] = []
        self._keep_logs = False

    folder: Path
    """Keys, configurations and logs; below `data` what ends with the node."""

    def keep_logs(self) -> None:
        """Keep the logs when the node ends, and say where they are."""
        self._keep_logs = True

    def command(self, *command: str | Path) -> list[str | Path]:
        """A command line that runs `command` on the node, as its administrator."""
        # Its cgroups first: a kubelet outside of the node's would not find itself.
        script = 'for group in $(cat "$0/groups"); do echo $$ > $group/cgroup.procs; done; exec "$@"'
        pid = (self.folder / "init.pid").read_text()
        enter = ["nsenter", "--target", pid, "--mount", "--net", "--cgroup", "--pid", "--uts", "--ipc", "--"]
        return ["sh", "-c", script, self.folder, *enter, *command]

    def in_network(self, *command: str | Path) -> list[str | Path]:
        """A command line that runs `command` on this machine, but in the node's network."""
        pid = (self.folder / "init.pid").read_text()
        return ["nsenter", "--target", pid, "--net", "--", *command]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for programs in the node's network."""
        return self._kubeconfig("admin")

    def run(
        self, *command: str | Path, stdin: str | None = None, check: bool = True, timeout_seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node; output is text. With `check` an exit code other than 0 raises `AssertionError`."""
        done = subprocess.run(
            self.command(*command),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env=self._environment(),
        )
        if check and done.returncode != 0:
            shown = " ".join(map(str, command))
            raise AssertionError(f"{shown} exited with code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done

    def kubectl(
        self, *arguments: str | Path, stdin: str | None = None, check: bool = True, timeout_seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator."""
        return self.run(kubectl(), *arguments, stdin=stdin, check=check, timeout_seconds=timeout_seconds)

    def helm(self, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run Helm as administrator."""
        return self.run(helm(), *arguments, stdin=stdin, timeout_seconds=300)

    # Life of the node.

    def __enter__(self) -> Node:
        self.folder = Path(tempfile.mkdtemp(prefix="firsttoken-node-"))
        try:
            self._start()
        except BaseException:
            self._keep_logs = True
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        dead = [component.name for component in self._components if not component.running]
        if dead:
            print(f"ended before the node did: {', '.join(dead)}", file=sys.stderr)
        self._keep_logs = self._keep_logs or bool(dead) or kind is not None
        self._end()

    def _start(self) -> None:
        servers, programs, root = control_plane(), node_programs(), machine()
        data = self.folder / "data"
        data.mkdir()
        self.folder.chmod(0o755)  # containers of any user look for their volumes below it
        self._make_namespaces(root, [servers, programs, kubectl().parent, REPOSITORY, *self._archives])
        keys = write_cluster_keys(self.folder, addresses=("127.0.0.1", ADDRESS), components=components.USERS)
        self._write_configurations(data, keys)

        self._run(servers / "etcd", control.etcd(PORTS, data))
        self._run("/usr/bin/containerd", [f"--config={self.folder / 'containerd.toml'}"])
        self._run(servers / "kube-apiserver", components.kube_apiserver(data, keys))
        self._wait("containerd answers", "ctr", "version")
        self._import([programs / "pause", servers / "prometheus"])
        self._wait("the API server is ready", kubectl(), "get", "--raw", "/readyz")
        kubeconfig = self.kubeconfig
        self._run(servers / "kube-controller-manager", control.kube_controller_manager(PORTS, data, keys, kubeconfig))
        self._run(servers / "kube-scheduler", control.kube_scheduler(PORTS, data, kubeconfig))
        config = self.folder / "kubelet.yaml"
        self._run(programs / "kubelet", components.kubelet(data, self._kubeconfig(KUBELET), config))
        self._run(programs / "kube-proxy", [f"--config={self.folder / 'kube-proxy.yaml'}"])
        self._run(programs / "coredns", ["-conf", str(self.folder / "Corefile")])
        self._wait("the node is ready", kubectl(), "wait", "--for=condition=Ready", f"node/{NAME}", "--timeout=20s")
        self._wait("service accounts", kubectl(), "get", "serviceaccount", "default")
        self._add_gpus()

    def _make_namespaces(self, root: Path, shared: Sequence[Path]) -> None:
        plan = {
            "state": str(self.folder),
            "machine": str(root),
            "shared": sorted({str(path if path.is_dir() else path.parent) for path in shared}),
            "name": NAME,
            "address": ADDRESS,
        }
        program = Path(__file__).with_name("namespaces.py")
        command = [sys.executable, "-I", "-S", str(program), json.dumps(plan)]
        log = self.folder / "namespaces.log"
        self._components.append(Component("namespaces", command, log, grace_seconds=END_SECONDS))
        wait_until(lambda: self._alive() and (self.folder / "init.pid").exists(), START_SECONDS, "namespaces")

    def _write_configurations(self, data: Path, keys: ClusterKeys) -> None:
        users = {"admin": keys.admin, **keys.components}
        for user, pair in users.items():
            write_kubeconfig(
                self._kubeconfig(user),
                api_url=f"https://{ADDRESS}:{PORTS.api}",
                ca=keys.ca,
                user=certificate_user(pair),
            )
        (data / "cni").mkdir()
        documents = {
            "kubelet.yaml": yaml.safe_dump(components.kubelet_config(data, keys)),
            "kube-proxy.yaml": yaml.safe_dump(components.kube_proxy_config(self._kubeconfig(KUBE_PROXY))),
            "Corefile": components.corefile(self.kubeconfig),
            "containerd.toml": components.containerd_config(data),
            "data/cni/10-bridge.conflist": json.dumps(components.network_config(data)),
            "data/resolv.conf": "",
        }
        for name, text in documents.items():
            (self.folder / name).write_text(text)

    def _kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user.replace(':', '-')}.kubeconfig"

    def _import(self, programs: Sequence[Path]) -> None:
        names = {"pause": (components.PAUSE, "65535:65535"), "prometheus": (PROMETHEUS, "65534:65534")}
        for program in programs:
            name, user = names[program.name]
            archive = self.folder / "data" / f"{program.name}.tar"
            self._archives.append(write_archive(archive, name, program, entrypoint=[f"/bin/{program.name}"], user=user))
        for archive in self._archives:
            self.run("ctr", "--namespace=k8s.io", "images", "import", "--snapshotter=overlayfs", archive)

    def _add_gpus(self) -> None:
        labels = GpuServers(gpus=self._gpus).labels.items()
        self.kubectl("label", "node", NAME, *(f"{key}={value}" for key, value in labels))
        patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(self._gpus)}]
        self.kubectl("patch", "node", NAME, "--subresource=status", "--type=json", "-p", json.dumps(patch))

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": "/root",
            "TMPDIR": "/tmp",
        }

    def _run(self, program: str | Path, arguments: Sequence[str]) -> None:
        name = Path(program).name
        log = self.folder / f"{name}.log"
        command = self.command(program, *arguments)
        self._components.append(Component(name, command, log, env=self._environment(), grace_seconds=0.2))

    def _alive(self) -> bool:
        for component in self._components:
            component.require_running()
        return True

    def _wait(self, what: str, *command: str | Path) -> None:
        wait_until(lambda: self._alive() and self.run(*command, check=False).returncode == 0, START_SECONDS, what)

    def _end(self) -> None:
        # Process 1 first: the kernel ends all others with it.
        for component in self._components:
            component.stop()
        self._components.clear()
        if not self._keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"the node's logs are in {self.folder}", file=sys.stderr, flush=True)
