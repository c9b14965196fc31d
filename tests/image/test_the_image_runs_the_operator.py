"""The image of the Dockerfile runs the operator as an unprivileged user without a file that it may write."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.image.container import Container, container
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import create, get, installed, replicas
from tools.cluster import Cluster, lease_port, wait_until
from tools.image.build import REPOSITORY, Image
from tools.release import project_version

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture(scope="module")
def operated(image: Image, control_plane: Path) -> Iterator[tuple[Cluster, Container]]:
    """A cluster, and a container with the token of the chart's account."""
    with installed() as (cluster, kubeconfig):
        (user,) = yaml.safe_load(kubeconfig.read_text())["users"]
        files = {
            f"{ACCOUNT}/token": user["user"]["token"],
            f"{ACCOUNT}/ca.crt": cluster.ca.read_text(),
            f"{ACCOUNT}/namespace": "firsttoken-system",
        }
        with container(image, files) as made:
            yield cluster, made


def test_it_decides_as_a_user_without_rights(operated: tuple[Cluster, Container]) -> None:
    cluster, box = operated
    port = lease_port().port
    environment = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": cluster.api_url.rpartition(":")[2],
    }
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--tick-seconds", "1"]
    create(cluster, workload(1, "told"), infd("told", targetRef={"name": "told"}, scaling={"minReplicas": 3}))
    operator = box.start("firsttoken", "operator", *arguments, environment=environment)

    def ready() -> bool:
        operator.require_running()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(ready, 60, "operator ready")
        wait_until(lambda: replicas(cluster, "told") == 3, 60, "scaled to the minimum")
        wait_until(lambda: get(cluster, "infd", "told").get("status", {}).get("readyReplicas") == 3, 60, "status told")
        owners = {process_user(pid) for pid in running_in(box)}
    finally:
        operator.stop()
    told = [json.loads(line) for line in operator.log.read_text().splitlines()]
    # NB: an API server whose definitions are a second old refuses a watch, which kopf tries again and calls an error.
    severities = {entry["severity"] for entry in told if not entry["logger"].endswith("clients.watching")}

    assert owners == {65532}
    assert severities <= {"info", "debug"}, operator.log.read_text()


def running_in(box: Container) -> list[int]:
    """Processes whose root is the container's."""
    roots = {int(path.name): path / "root" for path in Path("/proc").iterdir() if path.name.isdecimal()}
    return [pid for pid, root in roots.items() if readlink(root) == str(box.folder / "root")]


def readlink(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def process_user(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:"))
    return int(line.split()[1])


@pytest.mark.parametrize("command", ["operator", "emulate", "size", "curve", "import", "traffic", "simulate", "replay"])
def test_every_command_explains_itself(image: Image, command: str) -> None:
    with container(image, {}) as box:
        done = box.run("firsttoken", command, "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert f"usage: firsttoken {command}" in done.stdout


def test_a_command_of_the_shown_ones_sizes(image: Image) -> None:
    with container(image, {"/etc/example.yaml": (REPOSITORY / "examples/call-center.yaml").read_text()}) as box:
        done = box.run("firsttoken", "size", "-f", "/etc/example.yaml")

    assert done.returncode == 0, done.stderr
    assert "39" in done.stdout


def test_scipy_is_left_out(image: Image) -> None:
    with container(image, {}) as box:
        done = box.run("python", "-c", "import scipy")

    assert done.returncode == 1
    assert "No module named 'scipy'" in done.stderr


def test_nothing_of_it_can_be_written(image: Image) -> None:
    with container(image, {}) as box:
        done = box.run("python", "-c", "open('/tmp/x', 'w')")

    assert "Read-only file system" in done.stderr


def test_it_holds_what_it_runs_and_no_more(image: Image) -> None:
    files = [path for path in image.root.rglob("*") if not path.is_symlink() and path.is_file()]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    programs = {path.name for path in files if path.parent.name in {"bin", "sbin"}}

    packages, project = (int(layer) for layer in image.layer_megabytes)

    assert megabytes < 250
    assert project < 20 < packages  # what a new version is on a node that has the last one
    assert {name for name in programs if not name.startswith("python")} == {"firsttoken", "kubectl-firsttoken"}
    assert not [path for path in files if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not {path.name for path in files} & {"gcc", "cc", "ld", "as", "sh", "bash", "apt", "dpkg", "pip", "uv"}


def test_its_labels_and_its_user(image: Image) -> None:
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in image.config["Labels"].items()}
    given = {name: text for name, text in labels.items() if not name.startswith("io.buildah.")}

    assert image.config["User"] == "65532:65532"
    assert set(given) == {"title", "description", "licenses", "version", "revision"}
    assert given["version"] == project_version(REPOSITORY)
    assert given["licenses"] == "Apache-2.0"
    assert given["revision"].removesuffix("-dirty") == head_commit()


def head_commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, check=False, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def test_its_bill_of_materials_is_what_lies_in_it(image: Image) -> None:
    """The packages of Python by name and version, and of Debian those whose libraries are in it."""
    bill = json.loads((image.root / "opt/firsttoken/sbom.cdx.json").read_text())
    named = {(component["name"], component["version"]) for component in bill["components"]}
    of_python = {(c["name"], c["version"]) for c in bill["components"] if c["purl"].startswith("pkg:pypi/")}
    of_debian = {c["name"] for c in bill["components"] if c["purl"].startswith("pkg:deb/")}
    folders = image.root.glob("opt/firsttoken/lib/python3*/site-packages/*.dist-info")
    installed_packages = {
        (name.lower().replace("_", "-"), version)
        for name, _, version in (folder.name.removesuffix(".dist-info").partition("-") for folder in folders)
    }
    stanzas = {path.name: path.read_text() for path in (image.root / "var/lib/dpkg/status.d").iterdir()}

    assert bill["bomFormat"] == "CycloneDX"
    assert of_python == {(name, version) for name, version in installed_packages if name != "firsttoken"}
    assert {"numpy", "kubernetes", "kopf", "prometheus-api-client"} <= {name for name, _ in of_python}
    assert next(version for name, version in named if name == "cpython").startswith("3.11.")
    assert {"libc6", "libssl3", "libexpat1", "libsqlite3-0"} <= of_debian == set(stanzas)
    for name, stanza in stanzas.items():
        assert f"Package: {name}\n" in stanza
        assert any(f"Version: {version}\n" in stanza for other, version in named if other == name)


def test_the_client_is_the_one_that_the_lock_names(image: Image) -> None:
    """Its sources are left out; what is compiled is the version of uv.lock, for this Python."""
    (folder,) = image.root.glob("opt/firsttoken/lib/python3*/site-packages/kubernetes")

    assert not list(folder.rglob("*.py"))
    with container(image, {}) as box:
        done = box.run(
            "python",
            "-c",
            "import kubernetes.aio.client as c; print(c.__version__, c.CoreV1Api.list_pod_for_all_namespaces)",
        )
    assert done.returncode == 0, done.stderr
