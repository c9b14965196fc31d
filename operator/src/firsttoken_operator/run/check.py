"""`firsttoken operator --check`: each source of metrics and the API server are asked once, and nothing is written.

It runs with the account, the files and the network of the operator, as `helm test` does, and says in one line each who
does not answer and why. Each has ten seconds, all at once.
"""

from __future__ import annotations

import asyncio

from kubernetes.aio import client

from firsttoken_operator.act.errors import ClusterError
from firsttoken_operator.act.kubernetes import KubernetesCluster, load_configuration
from firsttoken_operator.domain import Missing
from firsttoken_operator.observe.prometheus import MAXIMUM_DEADLINE_SECONDS, PrometheusSource, SourceConfig
from firsttoken_operator.run.measuring import source_configs
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.watches import OURS, missing_definitions

QUESTION = "vector(1)"
"""Needs an address, credentials and a query API, and no series."""


async def ask_all(settings: Settings, kubeconfig: str | None) -> tuple[list[str], bool]:
    """One line for each that was asked, and whether all of them answered.

    Raises `kubernetes.aio.config.ConfigException` without usable credentials.
    """
    configuration = await load_configuration(kubeconfig)
    answers = await asyncio.gather(
        _ask_api_server(configuration), *(_ask_source(config) for config in source_configs(settings).values())
    )
    return [line for line, _ in answers], all(answered for _, answered in answers)


async def _ask_api_server(configuration: client.Configuration) -> tuple[str, bool]:
    cluster = KubernetesCluster(client.ApiClient(configuration))
    try:
        async with asyncio.timeout(MAXIMUM_DEADLINE_SECONDS):
            missing = [watched.kind for watched in await missing_definitions(cluster)]
    except (ClusterError, TimeoutError) as error:
        return f"API server: {str(error) or 'no answer in time'}", False
    finally:
        await cluster.close()
    if missing:
        return f"API server: custom resource definitions are missing: {', '.join(missing)}; install crds/", False
    return f"API server: serves {', '.join(watched.kind for watched in OURS)}", True


async def _ask_source(config: SourceConfig) -> tuple[str, bool]:
    source = PrometheusSource(config, deadline_seconds=MAXIMUM_DEADLINE_SECONDS)
    try:
        answer = await source.query(QUESTION)
    finally:
        source.close()
    if isinstance(answer, Missing):
        return f"{answer.detail} ({answer.reason.value})", False
    return f"{config.about}: answers", True
