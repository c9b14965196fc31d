"""Runtimes as the operator sees them: the engine inside, and how the container that the operator renders is started.

Pure, and restricted: of what a tenant writes only checked values get here, and no text of a tenant becomes a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from firsttoken_operator.runtimes.settings import Options
from firsttoken_operator.runtimes.weights import Weights
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.spec import EngineSettings
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import DraftMethod

CONFIGURATION_PATH = "/etc/firsttoken"
"""Directory of the files of a start."""
LEADER_ADDRESS, SERVER_NUMBER = "$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)"
"""Name of the first server of a replica, and the number of this one from 0, which the kubelet puts into an argument: a
LeaderWorkerSet adds both variables to each of its pods."""

Version = tuple[int, ...]
"""Version of a server, as many numbers as are known."""


@dataclass(frozen=True, slots=True)
class ServedReplica:
    """Everything that a server is told of the replica that was sized. Lengths are tokens."""

    key: ConfigurationKey
    settings: EngineSettings
    """Settings that the sizing assumes, under the names of its engine."""
    engine: Engine
    weights: Weights
    name: str
    """Name that clients call the model by."""
    port: int
    metrics_port: int
    longest_tokens: int
    """Longest prompt and answer together."""
    drain_seconds: int
    """Time in which answers under way may end after a replica was asked to stop."""
    ttft_limit_seconds: float | None = None
    version: Version | None = None
    """None: neither the image's tag nor the resource tells."""
    flags: tuple[str, ...] = ()
    """Further flags of the resource, of those that are `settable`."""
    drafts: int = 0
    """Tokens that are proposed at a time; 0: no speculative decoding."""
    draft_method: DraftMethod = DraftMethod.N_GRAM
    is_as_installed: bool = True
    """False where settings of the engine were declared."""
    servers: int = 1
    """Servers that the replica takes, with as many of its GPUs on each."""
    is_worker: bool = False
    """True of every server but the first one, which answers."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a container."""

    command: tuple[str, ...] = ()
    """Empty: that of the image."""
    arguments: tuple[str, ...] = ()
    """Words that follow it; empty without a command: those of the image."""
    environment: Mapping[str, str] = field(default_factory=dict)
    drains: bool = False
    """True where the server ends its answers itself when it is asked to stop, for `drain_seconds`."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by the name of the file below `CONFIGURATION_PATH`."""


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
    """Port of the API, as installed."""
    metrics_path: str
    secret_variable: str
    """Environment variable for the key of the model registry."""
    setting_prefixes: tuple[str, ...]
    """First words of the environment variables that a user may set."""
    owned: tuple[str, ...]
    """Variables that the operator sets from other fields: a second value would make the pod differ from what was
    sized."""
    defaults: Mapping[str, str]
    """Variables that a user may override."""
    start: Callable[[ServedReplica], Start]
    """Command, arguments and the owned variables. Raises `InvalidInput` for what this server cannot run."""
    answer_seconds: int | None = None
    """Time that its health takes to answer, where that is more than a moment."""
    metrics_port: int | None = None
    """Port of the metrics, where they have one of their own."""
    further_ports: Mapping[str, int] = field(default_factory=dict)
    """Further ports by name."""
    command: tuple[str, ...] = ()
    """Command of its `start`."""
    flags: tuple[str, ...] = ()
    """Flags that its `start` may give."""
    settable: tuple[str, ...] = ()
    """Flags that a user may give."""
    retired: tuple[str, ...] = ()
    """Flags that a user could give once: resources that have them go on, and no other takes them."""
    options: Options | None = None
    """Words by which a start is read; None: it tells nothing, or another release has them."""
    is_told: bool = True
    """False where its engine takes no settings: pods run what its profile has."""
    spans_since: Version | None = None
    """First version of which one replica is started over several servers; None: none is."""

    @property
    def setting_pattern(self) -> str:
        """Form of the variables that a user may set."""
        return rf"^({'|'.join(self.setting_prefixes)})_[A-Z0-9_]+$"


@dataclass(frozen=True, slots=True)
class ServerRelease:
    """Versions of a server that are started in one way. `since`: the first of them."""

    since: Version
    engines: tuple[Engine, ...]
    """Engines that may run in it; the first one does unless `sizing.engine` says otherwise."""
    container: ContainerSpec


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """One value of `runtime.type`. `releases`: newest first; the last one stands for a version that is not known."""

    name: str
    releases: tuple[ServerRelease, ...]

    def release(self, version: Version | None) -> ServerRelease:
        """The way in which this version is started."""
        return next((r for r in self.releases if version is not None and version >= r.since), self.releases[-1])


def version_of(image: str, declared: str | None = None) -> Version | None:
    """Version of a server: the declared one, else the one that the image's tag begins with (`v0.33.0`, `26.07-...`)."""
    tag = declared or image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    found = re.match(r"v?(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5}))?", tag)
    return tuple(int(part) for part in found.groups() if part is not None) if found else None
