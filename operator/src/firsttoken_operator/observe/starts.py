"""Start of the server in a pod, and its end, read from its template once when an event arrives.

Only numbers are kept of it.
"""

from __future__ import annotations

import re

from firsttoken_operator.domain import Ending
from firsttoken_operator.observe.projections import Body, count, gpus_of
from firsttoken_operator.runtimes.settings import Started
from firsttoken_operator.runtimes.started import Words, started

DEFAULT_GRACE_SECONDS = 30.0
"""Kubernetes' own `terminationGracePeriodSeconds`."""
_SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})


def started_by(pod_spec: Body) -> Started | None:
    """Settings of the server; None: they cannot be read."""
    container = _serving(pod_spec)
    if container is None:
        return None
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


def ending_of(pod_spec: Body, start: Started | None) -> Ending:
    """Times of its end. `start`: how its server is started, where that can be read."""
    declared = pod_spec.get("terminationGracePeriodSeconds")
    grace_seconds = DEFAULT_GRACE_SECONDS if declared is None else float(count(declared))
    container = _serving(pod_spec)
    hook = ((container or {}).get("lifecycle") or {}).get("preStop")
    sleep_seconds = None if container is None else _slept_seconds(hook) if hook else 0.0
    return Ending(grace_seconds, sleep_seconds, start.drain if start else None)


def _serving(pod_spec: Body) -> Body | None:
    """The container of the server: the only one, or the only one with GPUs; None: that is not told."""
    containers: list[Body] = list(pod_spec.get("containers") or ())
    serving = [each for each in containers if gpus_of({"containers": [each]})] or containers
    return serving[0] if len(serving) == 1 else None


def _slept_seconds(hook: Body) -> float | None:
    """Time of a `preStop` that does nothing but sleep; None: it does something else, for as long as that takes."""
    if (sleep := hook.get("sleep")) is not None:
        return float(count(sleep.get("seconds")))
    words = [str(word) for word in (hook.get("exec") or {}).get("command") or ()]
    if len(words) == 3 and words[0] in _SHELLS and words[1] == "-c":
        words = words[2].split()
    found = re.fullmatch(r"(?:/bin/|/usr/bin/)?sleep ([0-9]{1,6})s?", " ".join(words))
    return float(found[1]) if found else None
