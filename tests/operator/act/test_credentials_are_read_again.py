"""The token of a service account is rotated while the process runs: refused once it is old, and read again."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client
from kubernetes.aio.config.incluster_config import InClusterConfigLoader

from firsttoken_operator.act.errors import Rejected
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef

REF = ObjectRef("apps/v1", "Deployment", "default", "nim")


async def test_a_rotated_token_is_used_within_a_minute(tmp_path: Path) -> None:
    valid, token, authority = ["old"], tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("old")
    authority.write_text("ca")

    async def answer(request: web.Request) -> web.Response:
        is_valid = request.headers.get("Authorization") == f"bearer {valid[0]}"
        return web.json_response({"message": "Unauthorized"} if not is_valid else {}, status=200 if is_valid else 401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    loader = InClusterConfigLoader(
        token_filename=str(token), cert_filename=str(authority),
        environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
    )  # fmt: skip
    configuration = client.Configuration()
    loader.load_and_set(configuration)
    configuration.ssl_ca_cert = None
    async with TestServer(app) as server:
        configuration.host = loader.host = str(server.make_url("")).rstrip("/")
        cluster = KubernetesCluster(client.ApiClient(configuration))
        await cluster.read(REF)
        valid[0] = "new"
        token.write_text("new")
        with pytest.raises(Rejected, match="401 Unauthorized"):
            await cluster.read(REF)
        loader.token_expires_at = datetime.now() - timedelta(seconds=1)  # as the loader has it
        await cluster.read(REF)
        await cluster.close()
