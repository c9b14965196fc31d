"""InferenceDeployments of a live cluster, read as kubectl reads them: the same kubeconfig, context and namespace."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from firsttoken_operator.api.base import GROUP, STORED, VERSION
from firsttoken_operator.api.errors import ApiError
from firsttoken_operator.api.inference_deployment import InferenceDeployment

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_PLURAL = "inferencedeployments"
_ANSWER_SECONDS = 15.0


class ClusterProblem(ApiError):
    """A cluster that cannot be asked, or does not have what was asked for: the problem, and the fix."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{' '.join(problem.split())}; {fix}")


@dataclass(frozen=True, slots=True)
class ClusterArguments:
    """Place to look: None is what kubectl would take."""

    namespace: str | None
    context: str | None
    kubeconfig: str | None


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `-n`, `--context` and `--kubeconfig`, as kubectl has them."""
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default: that of the context")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else ~/.kube/config")


def arguments_of(args: argparse.Namespace) -> ClusterArguments:
    """Read the arguments that `add_cluster` added."""
    return ClusterArguments(args.namespace, args.context, args.kubeconfig)


def inference_deployments(where: ClusterArguments, *, everywhere: bool = False) -> list[InferenceDeployment]:
    """All of the namespace, or of all namespaces, in order of their names. Raises `ClusterProblem`."""
    with _connected(where) as (api_client, of_context):
        namespace = None if everywhere else where.namespace or of_context or "default"
        documents = _list(api_client, namespace)
    found = [_read(document) for document in documents]
    return sorted(found, key=lambda infd: (infd.metadata.namespace, infd.metadata.name))


def named(found: list[InferenceDeployment], name: str) -> InferenceDeployment:
    """The one of this name. Raises `ClusterProblem`, which names those that are near."""
    for deployment in found:
        if deployment.metadata.name == name:
            return deployment
    names = [deployment.metadata.name for deployment in found]
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    problem = f"no InferenceDeployment {name!r} in this namespace"
    raise ClusterProblem(
        problem, f"did you mean {' or '.join(near)}?" if near else "see all: kubectl get inferencedeployments -A"
    )


@contextmanager
def _connected(where: ClusterArguments) -> Iterator[tuple[ApiClient, str | None]]:
    """A client, and the namespace of its context."""
    # NB: imported here, so that `--help` needs none of the packages of the extra; it takes a second.
    from kubernetes import client, config
    from kubernetes.config import ConfigException

    configuration = client.Configuration()
    configuration.retries = 0  # urllib3 would tell of each try on stderr
    file = where.kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            file, where.context, client_configuration=configuration, persist_config=False
        )
        contexts, active = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ClusterProblem(f"no cluster to ask: {error}", "set KUBECONFIG, --kubeconfig or --context") from error
    chosen = next((c for c in contexts if c["name"] == where.context), active)
    with client.ApiClient(configuration) as api_client:
        yield api_client, chosen["context"].get("namespace")


def _list(api_client: ApiClient, namespace: str | None) -> list[dict[str, Any]]:
    from kubernetes.client import ApiException, CustomObjectsApi
    from urllib3.exceptions import HTTPError

    api = CustomObjectsApi(api_client)
    place = f"in namespace {namespace}" if namespace else "in all namespaces"
    try:
        if namespace is None:
            answer = api.list_cluster_custom_object(GROUP, VERSION, _PLURAL, _request_timeout=_ANSWER_SECONDS)
        else:
            answer = api.list_namespaced_custom_object(
                GROUP, VERSION, namespace, _PLURAL, _request_timeout=_ANSWER_SECONDS
            )
    except ApiException as error:
        raise _refused(error.status, error.reason, place) from error
    except (HTTPError, OSError) as error:
        host = api_client.configuration.host
        cause = getattr(error, "reason", None) or error
        raise ClusterProblem(f"{host} does not answer: {cause}", "check that the cluster is up") from error
    return list(answer["items"])  # type: ignore[index]  # declared as an object, it is JSON


def _refused(status: int | None, reason: str | None, place: str) -> ClusterProblem:
    if status == 404:
        return ClusterProblem(f"this cluster has no resource {_PLURAL}.{GROUP}", "install the chart: docs/install.md")
    if status == 401:
        return ClusterProblem("the cluster does not accept these credentials", "log in again, or set --context")
    if status == 403:
        ask = f"kubectl auth can-i list {_PLURAL}"
        return ClusterProblem(f"you may not list {_PLURAL}.{GROUP} {place}", f"ask for that right ({ask}), or set -n")
    return ClusterProblem(f"the cluster answers {status} {reason}", "try again")


def _read(document: dict[str, Any]) -> InferenceDeployment:
    try:
        return InferenceDeployment.model_validate(document, context=STORED)
    except ValidationError as error:
        metadata = document["metadata"]
        path = ".".join(map(str, error.errors()[0]["loc"]))
        name = f"{metadata['namespace']}/{metadata['name']}"
        problem = f"{name} has a field that this version cannot read: {path}"
        raise ClusterProblem(problem, "use the version of the operator") from error
