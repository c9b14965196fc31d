"""Runtimes as the operator sees them: the engine inside, and how its container is run where the operator renders it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Facts of a runtime's image that a pod has to meet. Restricted: nothing here is text of a tenant."""

    name: str
    """Name of the container, and of the application in its labels."""
    user: int
    """Not root; also its group and that of its volumes."""
    cache_path: str
    """Directory where it keeps weights."""
    ready_path: str
    live_path: str
    port: int
    """Port of the OpenAI-compatible API, as installed."""
    metrics_path: str
    secret_variable: str
    """Environment variable for the key of the model registry."""
    setting_pattern: str
    """Environment variables that a user may set."""
    owned: tuple[str, ...]
    """Those among them that the operator sets from other fields: a second value would make the pod differ from what
    was sized."""
    defaults: Mapping[str, str]
    """Variables that a user may override."""
    environment: Callable[[int, ConfigurationKey], dict[str, str]]
    """The owned variables, for an API port and a configuration."""


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """One value of `runtime.type`."""

    name: str
    engine: Engine
    """Engine that runs in it unless `sizing.engine` says otherwise."""
    container: ContainerSpec | None = None
    """None: this version does not render it."""
