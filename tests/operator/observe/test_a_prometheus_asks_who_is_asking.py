"""A real Prometheus behind mutual TLS and a password (`--web.config.file`): who is let in, what others are told."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from firsttoken_operator.observe.source import Vector
from tools.cluster import Component, lease_port, wait_until
from tools.cluster.pki import ClusterKeys, write_cluster_keys

pytestmark = pytest.mark.cluster

USER, PASSWORD = "reader", "test"
HASH = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
"""Hash of the password (bcrypt), as the manual of Prometheus has it."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[ClusterKeys, ClusterKeys]:
    """Keys of the authority that signed server and operator, and of another one."""
    ours, others = (
        write_cluster_keys(tmp_path_factory.mktemp(name), components={"firsttoken": None}) for name in ("ca", "other")
    )
    return ours, others


@pytest.fixture(scope="module")
def url(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory, keys: tuple[ClusterKeys, ClusterKeys]
) -> Iterator[str]:
    folder, (ours, _), lease = tmp_path_factory.mktemp("prometheus"), keys, lease_port()
    tls = {
        "cert_file": str(ours.server.certificate), "key_file": str(ours.server.key), "client_ca_file": str(ours.ca),
        "client_auth_type": "RequireAndVerifyClientCert",
    }  # fmt: skip
    (folder / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": tls, "basic_auth_users": {USER: HASH}}))
    (folder / "prometheus.yaml").write_text("{}")
    command = [
        control_plane / "prometheus", f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{lease.port}",
        f"--web.config.file={folder / 'web.yaml'}", "--log.level=warn",
    ]  # fmt: skip
    server = Component("prometheus", command, folder / "prometheus.log")

    def listens() -> bool:
        server.require_running()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", lease.port)) == 0

    try:
        wait_until(listens, 60, "Prometheus listens")
        yield f"https://127.0.0.1:{lease.port}"
    finally:
        server.stop()
        lease.release()


@pytest.fixture
def right(url: str, keys: tuple[ClusterKeys, ClusterKeys], tmp_path: Path) -> SourceConfig:
    """All that the server asks for."""
    ours = keys[0]
    pair = ours.components["firsttoken"]
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    return SourceConfig(
        "team-a",
        url,
        basic_auth=(USER, tmp_path / "password"),
        certificate_authority_file=ours.ca,
        client_certificate=(pair.certificate, pair.key),
    )


@pytest.fixture
async def opened() -> AsyncIterator[list[PrometheusSource]]:
    sources: list[PrometheusSource] = []
    yield sources
    for source in sources:
        source.close()


async def ask(opened: list[PrometheusSource], config: SourceConfig) -> Vector | Missing:
    opened.append(PrometheusSource(config, deadline_seconds=10))
    return await opened[-1].query("vector(1)")


def refused(answer: Vector | Missing, config: SourceConfig, reason: Reason, words: str) -> None:
    """Missing for this reason, in words that name the source and no secret."""
    assert isinstance(answer, Missing), answer
    assert answer.reason is reason, answer.detail
    assert answer.detail.startswith(f'source "team-a" ({config.url}): ')
    assert words in answer.detail.lower()
    secrets = [PASSWORD, HASH] if config.basic_auth else []
    assert not any(secret in answer.detail for secret in [*secrets, "PRIVATE KEY"])


async def test_with_certificate_and_password_it_is_let_in(opened: list[PrometheusSource], right: SourceConfig) -> None:
    answer = await ask(opened, right)

    assert isinstance(answer, Vector), answer
    assert [sample.value for sample in answer.samples] == [1.0]


async def test_without_a_certificate_it_is_told_that_one_is_required(
    opened: list[PrometheusSource], right: SourceConfig
) -> None:
    config = replace(right, client_certificate=None)

    refused(await ask(opened, config), config, Reason.SOURCE_MISCONFIGURED, "certificate_required")


async def test_a_certificate_of_another_authority_is_refused(
    opened: list[PrometheusSource], right: SourceConfig, keys: tuple[ClusterKeys, ClusterKeys]
) -> None:
    pair = keys[1].components["firsttoken"]
    config = replace(right, client_certificate=(pair.certificate, pair.key))

    refused(await ask(opened, config), config, Reason.SOURCE_MISCONFIGURED, "unknown_ca")


async def test_a_key_of_another_certificate_is_named_by_its_file(
    opened: list[PrometheusSource], right: SourceConfig, keys: tuple[ClusterKeys, ClusterKeys]
) -> None:
    ours, others = (made.components["firsttoken"] for made in keys)
    config = replace(right, client_certificate=(ours.certificate, others.key))

    refused(await ask(opened, config), config, Reason.SOURCE_MISCONFIGURED, "mismatch")


async def test_a_certificate_that_is_not_there_costs_this_source_only(
    opened: list[PrometheusSource], right: SourceConfig
) -> None:
    config = replace(right, client_certificate=(Path("/nowhere/tls.crt"), Path("/nowhere/tls.key")))

    refused(await ask(opened, config), config, Reason.SOURCE_MISCONFIGURED, "tls.crt")


@pytest.mark.parametrize("known", ["another authority", "those of the machine"])
async def test_a_server_of_an_authority_that_is_not_known_is_told_nothing(
    opened: list[PrometheusSource], right: SourceConfig, keys: tuple[ClusterKeys, ClusterKeys], known: str
) -> None:
    config = replace(right, certificate_authority_file=keys[1].ca if known == "another authority" else None)

    refused(await ask(opened, config), config, Reason.SOURCE_MISCONFIGURED, "certificate")


async def test_a_wrong_password_is_refused_behind_the_right_certificate(
    opened: list[PrometheusSource], right: SourceConfig, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("hunter2")
    answer = await ask(opened, right)

    refused(answer, right, Reason.UNAUTHORIZED, "http 401")
    assert isinstance(answer, Missing)
    assert "hunter2" not in answer.detail
