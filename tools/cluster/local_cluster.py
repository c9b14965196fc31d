"""A whole Kubernetes cluster for one test module or one demo: real API server, emulated GPU servers, real Prometheus.

`Cluster` starts the components in order, waits until pods can be scheduled, and takes everything down again. It
installs nothing into the cluster: custom resources, charts and workloads are the caller's.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from kubernetes import client, config

from tools.cluster import components
from tools.cluster.build import control_plane
from tools.cluster.components import DEFAULT_CONTROLLERS, ControllerOptions
from tools.cluster.emulation import GpuServers, stages_document
from tools.cluster.pki import ClusterKeys, certificate_user, write_cluster_keys, write_kubeconfig
from tools.cluster.ports import PortLease, lease_port
from tools.cluster.process import Component, ComponentFailedError
from tools.cluster.prometheus import Prometheus, PrometheusOptions
from tools.cluster.tools import kubectl
from tools.cluster.waiting import answers, wait_until, wait_until_established

START_SECONDS = 120.0
START_ATTEMPTS = 3
DATA_FOLDERS = ("etcd-data", "prometheus-data", "kubectl-cache")
TOKEN_SECONDS = 24 * 3600


class Cluster:
    """A local cluster, up between `with` and the end of the block.

    `nodes` servers with `gpus_per_node` GPUs each, or the groups in `servers` instead. A pod is ready
    `ready_delay_seconds` after it was placed on a node, and gone `terminate_delay_seconds` after its deletion; its
    annotations `firsttoken.dev/ready-after` and `firsttoken.dev/terminate-after` (such as "18s") win over both.
    Without `prometheus` there is none.

    Logs are in `folder`. They are deleted at the end, unless the block raised or `keep_logs` was called.
    """

    def __init__(
        self,
        *,
        nodes: int = 8,
        gpus_per_node: int = 8,
        servers: Sequence[GpuServers] = (),
        ready_delay_seconds: float = 0.5,
        terminate_delay_seconds: float = 0.0,
        prometheus: PrometheusOptions | None = None,
        controllers: ControllerOptions = DEFAULT_CONTROLLERS,
    ) -> None:
        self._servers = tuple(servers) or (GpuServers(nodes, gpus_per_node),)
        self._stages = stages_document(
            ready_delay_seconds=ready_delay_seconds, terminate_delay_seconds=terminate_delay_seconds
        )
        self._prometheus_options = prometheus
        self._controllers = controllers
        self._keep_logs = False
        self._clear()

    def _clear(self) -> None:
        self._leases: list[PortLease] = []
        self._components: list[Component] = []
        self._prometheus: Prometheus | None = None
        self._client: client.ApiClient | None = None

    # What a caller needs to talk to the cluster.

    folder: Path
    """Logs, keys and kubeconfigs."""
    ca: Path
    """Certificate of the cluster's authority, PEM."""
    kubeconfig: Path
    """The administrator's kubeconfig."""
    api_url: str
    """Address of the API server."""

    @property
    def client(self) -> client.ApiClient:
        """A client with the administrator's rights, closed with the cluster: `CoreV1Api(cluster.client)`."""
        if self._client is None:
            raise RuntimeError("the cluster is not up")
        return self._client

    @property
    def prometheus(self) -> Prometheus:
        """The cluster's Prometheus: query it, pause its scraping, restart it empty."""
        if self._prometheus is None:
            raise RuntimeError("this cluster has no Prometheus; pass prometheus=PrometheusOptions()")
        return self._prometheus

    @property
    def pids(self) -> dict[str, int]:
        """Process of each program of the cluster, by the program's name."""
        found = {component.name: component.pid for component in self._components}
        if self._prometheus is not None and self._prometheus.pid is not None:
            found["prometheus"] = self._prometheus.pid
        return found

    @property
    def prometheus_url(self) -> str:
        """Address of Prometheus; it stays the same over restarts."""
        return self.prometheus.url

    def start_prometheus(self) -> None:
        """Start Prometheus after `stop_prometheus`, with its earlier samples."""
        self.prometheus.start()

    def stop_prometheus(self) -> None:
        """Stop Prometheus; its address refuses connections from then on."""
        self.prometheus.stop()

    def restart_prometheus(self, *, empty: bool = False) -> None:
        """Stop and start Prometheus on the same port; with `empty` it has forgotten every sample."""
        self.prometheus.restart(empty=empty)

    def add_http_sd(self, url: str, *, job: str = "fleet") -> None:
        """Let Prometheus scrape what `url` lists as HTTP service discovery, under the job name `job`."""
        self.prometheus.add_http_sd(url, job=job)

    def kubectl(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        check: bool = True,
        kubeconfig: Path | None = None,
        timeout_seconds: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl, as administrator or with another `kubeconfig`; output is text.

        With `check` an exit code other than 0 raises `AssertionError` with what kubectl said.
        """
        done = subprocess.run(
            [kubectl(), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env=self.environment(kubeconfig),
        )
        if check and done.returncode != 0:
            command = " ".join(map(str, arguments))
            raise AssertionError(f"kubectl {command} exited with code {done.returncode}: {done.stderr.strip()}")
        return done

    def wait_until_established(self) -> None:
        """Wait until every custom resource definition is served."""
        wait_until_established(lambda *arguments: self.kubectl(*arguments).stdout)

    def environment(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """Environment of this process with KUBECONFIG set, for kubectl, Helm and the operator."""
        # NB: kubectl caches what an address serves for hours; the next cluster may have this one's port.
        own = {"KUBECONFIG": str(kubeconfig or self.kubeconfig), "KUBECACHEDIR": str(self.folder / "kubectl-cache")}
        return os.environ | own

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of an existing ServiceAccount, so that a program runs under its RBAC."""
        spec = client.V1TokenRequestSpec(audiences=[components.ISSUER], expiration_seconds=TOKEN_SECONDS)
        request = client.AuthenticationV1TokenRequest(spec=spec)
        core = client.CoreV1Api(self.client)
        answer = core.create_namespaced_service_account_token(name=name, namespace=namespace, body=request)
        assert answer.status is not None
        path = self.folder / f"kubeconfig-{namespace}-{name}"
        user = {"token": answer.status.token}
        return write_kubeconfig(path, api_url=self.api_url, ca=self.ca, user=user, namespace=namespace)

    def keep_logs(self) -> None:
        """Keep the logs when the cluster ends, and say where they are."""
        self._keep_logs = True

    # Life of the cluster.

    def __enter__(self) -> Cluster:
        for attempt in range(1, START_ATTEMPTS + 1):
            self.folder = Path(tempfile.mkdtemp(prefix="firsttoken-cluster-"))
            try:
                self._start()
            except BaseException as error:
                taken = isinstance(error, ComponentFailedError) and "address already in use" in str(error)
                again = taken and attempt < START_ATTEMPTS
                self._keep_logs = self._keep_logs or not again
                self._end()
                if not again:
                    raise
            else:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        dead = [component.name for component in self._components if not component.running]
        if dead:
            print(f"ended before the cluster did: {', '.join(dead)}", file=sys.stderr)
        if dead or kind is not None:
            self.keep_logs()
        self._end()

    def _start(self) -> None:
        programs = control_plane()
        keys = write_cluster_keys(self.folder)
        ports = components.Ports(*(self._lease() for _ in range(6)))
        self.ca, self.api_url = keys.ca, ports.api_url
        self.kubeconfig = write_kubeconfig(
            self.folder / "kubeconfig", api_url=ports.api_url, ca=keys.ca, user=certificate_user(keys.admin)
        )
        stages = self.folder / "stages.yaml"
        stages.write_text(self._stages)

        self._run(programs / "etcd", components.etcd(ports, self.folder))
        self._wait_healthy(f"{ports.etcd_url}/health")
        # Everything it knows is thrown away, and it would wait for open watches before it ends.
        self._run(programs / "kube-apiserver", components.kube_apiserver(ports, self.folder, keys), grace_seconds=0.2)
        if self._prometheus_options is not None:
            self._prometheus = Prometheus(programs / "prometheus", self.folder, self._prometheus_options)
            self._prometheus.start()
        self._wait_healthy(f"{ports.api_url}/readyz", _tls(keys))
        self._run(
            programs / "kube-controller-manager",
            components.kube_controller_manager(ports, self.folder, keys, self.kubeconfig, self._controllers),
        )
        self._run(programs / "kube-scheduler", components.kube_scheduler(ports, self.folder, self.kubeconfig))
        self._run(programs / "kwok", components.kwok(ports, self.kubeconfig, stages))
        self._client = config.new_client_from_config(str(self.kubeconfig))  # type: ignore[no-untyped-call]
        self._create_nodes()
        wait_until(self._schedulable, START_SECONDS, "nodes ready and the default ServiceAccount created")

    def _lease(self) -> int:
        lease = lease_port()
        self._leases.append(lease)
        return lease.port

    def _run(self, program: Path, arguments: Sequence[str], *, grace_seconds: float = 2.0) -> None:
        log = self.folder / f"{program.name}.log"
        self._components.append(Component(program.name, [program, *arguments], log, grace_seconds=grace_seconds))

    def _wait_healthy(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        def healthy() -> bool:
            self._require_running()
            return answers(url, tls)

        wait_until(healthy, START_SECONDS, url, poll_seconds=0.05)

    def _create_nodes(self) -> None:
        core = client.CoreV1Api(self.client)
        for servers in self._servers:
            for manifest in servers.manifests():
                core.create_node(manifest)

    def _schedulable(self) -> bool:
        self._require_running()
        core = client.CoreV1Api(self.client)
        accounts = core.list_namespaced_service_account("default", field_selector="metadata.name=default").items
        return bool(accounts) and all(_takes_pods(node) for node in core.list_node().items)

    def _require_running(self) -> None:
        for component in self._components:
            component.require_running()

    def _end(self) -> None:
        if self._client is not None:
            self._client.close()  # type: ignore[no-untyped-call]
        for component in self._components:
            component.begin_stop()
        if self._prometheus is not None:
            self._prometheus.begin_stop()
            self._prometheus.close()
        for component in self._components:
            component.stop()
        for lease in self._leases:
            lease.release()
        self._clear()
        if not self._keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for name in DATA_FOLDERS:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        print(f"the cluster's logs are in {self.folder}", file=sys.stderr, flush=True)


def _tls(keys: ClusterKeys) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(keys.ca))
    context.load_cert_chain(keys.admin.certificate, keys.admin.key)
    return context


def _takes_pods(node: client.V1Node) -> bool:
    if node.status is None or node.spec is None:
        return False
    ready = any(entry.type == "Ready" and entry.status == "True" for entry in node.status.conditions or [])
    return ready and not node.spec.taints
