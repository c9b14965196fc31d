"""`firsttoken size -o flags`: how each server that can run an answer is started, with the settings that were sized.

The same text that `spec.runtime` renders; comments name the server, so that the rest can be pasted into a shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.served import described_replica
from firsttoken_operator.runtimes import RuntimeType, hugging_face
from firsttoken_operator.runtimes.spec import CONFIGURATION_PATH, ServerRelease, Start
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey

_CONTINUED = " \\\n  "


def starts(deployment: InferenceDeployment, key: ConfigurationKey, engine: Engine) -> Iterator[str]:
    """One block of lines for each server: that of `spec.runtime`, else the newest of each that runs the engine."""
    runtime = deployment.spec.runtime
    if runtime is not None:
        yield from _block(deployment, key, engine, [(runtime.type, runtime.release)])
    else:
        able = [(t, r) for t in RuntimeType for r in t.spec.releases[:1] if engine in r.engines]
        older = [(t, r) for t in RuntimeType for r in t.spec.releases[1:2] if engine in r.engines]
        newest = {runtime for runtime, _ in able}
        yield from _block(deployment, key, engine, [*able, *((t, r) for t, r in older if t not in newest)])


def _block(
    deployment: InferenceDeployment,
    key: ConfigurationKey,
    engine: Engine,
    servers: Iterable[tuple[RuntimeType, ServerRelease]],
) -> Iterator[str]:
    for runtime, release in servers:
        since = ".".join(map(str, release.since))
        title = f"# {runtime.value} {since} or later"
        try:
            start = release.container.start(described_replica(deployment, key, engine, release))
        except InvalidInput as error:
            yield f"{title}: {error}\n"
            continue
        yield f"{title}\n{_text(start)}\n"


def _text(start: Start) -> str:
    # Where a container keeps its files is no setting.
    told = {name: value for name, value in start.environment.items() if name not in hugging_face.ENVIRONMENT}
    environment = [f"{name}={shlex.quote(value)}" for name, value in told.items()]
    lines = [f"# {CONFIGURATION_PATH}/{name}: {text}\n" for name, text in start.files.items()]
    command = [shlex.join(start.command), *map(shlex.quote, start.arguments)] if start.command else []
    # NB: what NVIDIA's images are told stands in variables alone.
    words = [*environment, *command] if command else [f"--env {word}" for word in environment]
    return "".join(lines) + _CONTINUED.join(words)
