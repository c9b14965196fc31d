"""Start of the server in a pod, read from its template once when an event arrives; only numbers are kept of it."""

from __future__ import annotations

from firsttoken_operator.observe.projections import Body, gpus_of
from firsttoken_operator.runtimes.settings import Started
from firsttoken_operator.runtimes.started import Words, started


def started_by(pod_spec: Body) -> Started | None:
    """Settings of the server: the only container, or the only one with GPUs; None: they cannot be read."""
    containers: list[Body] = list(pod_spec.get("containers") or ())
    serving = [each for each in containers if gpus_of({"containers": [each]})] or containers
    if len(serving) != 1:
        return None
    container = serving[0]
    # NB: a value that stands in another object is not read: it may be a secret, and is none of ours.
    literal = [entry for entry in container.get("env") or () if isinstance(entry.get("value"), str)]
    return started(
        Words(
            image=str(container.get("image") or ""),
            command=[str(word) for word in container.get("command") or ()],
            arguments=[str(word) for word in container.get("args") or ()],
            environment={str(entry.get("name")): entry["value"] for entry in literal},
        )
    )
