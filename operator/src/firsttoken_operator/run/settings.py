"""Settings of the cluster's administrator: the operator's configuration file and flags, read once at start.

A tenant sets nothing here: an InferenceDeployment only names one of the Prometheus servers listed here.

`time_scale` divides every duration of the control loop and touches no request (docs/design/control.md); in production
it is 1.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from firsttoken_operator.domain import TargetKind, Timing
from firsttoken_operator.domain.target_kinds import NAMED
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.run.watches import OPTIONAL, WATCHED

SCRAPES_PER_RATE_WINDOW = 4
"""A rate over fewer scrapes is noise, and empty below two."""
TEN_MINUTES = 600.0
DNS_NAME = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
METRIC_NAME = "^[a-zA-Z_:][a-zA-Z0-9_:]*$"
HeaderName = Annotated[str, Field(pattern="^[A-Za-z0-9][-A-Za-z0-9]*$", max_length=64)]
HeaderValue = Annotated[str, Field(pattern="^[ -~]*$", max_length=1024)]
OWN_HEADERS = {"authorization", "accept-encoding", "host", "content-length", "transfer-encoding", "connection"}
LabelName = Annotated[str, Field(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")]


class SettingsError(Exception):
    """The configuration cannot be used: one line that names the key and the fix."""


class _Section(BaseModel):
    """A part of the configuration file: camelCase, and nothing that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class GatewaySettings(_Section):
    """A counter of requests as they come, kept by a gateway in front of the inference pods.

    `name_label` holds the name of the Deployment that is scaled, `namespace_label` its namespace. `selector`: labels
    with the values that they must have. It keeps out what is not the gateway's own: any pod may expose any metric.
    """

    requests_total: str = Field(pattern=METRIC_NAME)
    namespace_label: LabelName = "namespace"
    name_label: LabelName
    selector: dict[LabelName, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_labels(self) -> GatewaySettings:
        if self.namespace_label == self.name_label:
            raise ValueError(f"{self.name_label!r} cannot hold the namespace and the name; name two labels")
        return self


class BasicAuthSettings(_Section):
    """A user, and the file of the password."""

    username: str = Field(min_length=1, pattern="^[^:]+$")
    password_file: Path


class PrometheusSettings(_Section):
    """One Prometheus, as the administrator names it. Files are read again when they change."""

    url: str
    bearer_token_file: Path | None = None
    basic_auth: BasicAuthSettings | None = None
    allow_insecure_token: bool = False
    """Permission to send token or password over plain HTTP, readable on the way."""
    certificate_authority_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, max_length=16)
    """Sent with each query, such as `X-Scope-OrgID` for a tenant of Mimir or Thanos. No secrets: use the files."""
    response_limit_mebibytes: int = Field(default=16, ge=1, le=1024)
    gateway: GatewaySettings | None = None

    @property
    def gateway_counter(self) -> GatewayCounter | None:
        """The gateway's counter as it is asked for."""
        named = self.gateway
        if named is None:
            return None
        return GatewayCounter(named.requests_total, named.namespace_label, named.name_label, named.selector)

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a Prometheus; use http://host:9090")
        if parts.username or parts.password:
            raise ValueError("credentials do not belong into a URL, which is logged; use bearerTokenFile")
        try:
            _ = parts.port
        except ValueError:
            raise ValueError(f"{url!r} has a port that is none; use 1 to 65535") from None
        return url

    @property
    def client_certificate(self) -> tuple[Path, Path] | None:
        """Files of the certificate that the operator shows, and of its key."""
        certificate, key = self.client_certificate_file, self.client_key_file
        return (certificate, key) if certificate and key else None

    @model_validator(mode="after")
    def _check_credentials(self) -> PrometheusSettings:
        if self.bearer_token_file and self.basic_auth:
            raise ValueError("bearerTokenFile and basicAuth are two answers to one question; keep one of them")
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            raise ValueError("clientCertificateFile and clientKeyFile belong together; set both")
        for header in self.headers:
            if header.lower() in OWN_HEADERS:
                raise ValueError(f"headers: {header} is set by the operator; remove it")
        return self

    @model_validator(mode="after")
    def _keep_the_token_secret(self) -> PrometheusSettings:
        what = "basicAuth" if self.basic_auth else "bearerTokenFile" if self.bearer_token_file else ""
        if what and not self.allow_insecure_token and urlsplit(self.url).scheme == "http":
            raise ValueError(
                f"{what} would be sent to {self.url} unencrypted; use an https URL, or set allowInsecureToken"
            )
        return self


class ApiServerSettings(_Section):
    """Budget of what the operator may ask of the API server, beside its watches."""

    requests_per_second: float = Field(default=50.0, ge=1, le=1000)
    burst: int = Field(default=100, ge=20, le=10_000)
    """Requests at once after a quiet time; half of them are kept for replicas."""


DOTTED_PATH = r"^(\.[A-Za-z][A-Za-z0-9]*){1,6}$"


class TargetKindSettings(_Section):
    """A kind with a scale subresource, as its definition serves it.

    The two paths are `specReplicasPath` and `labelSelectorPath` of the definition's scale subresource.
    """

    api_version: str = Field(pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[a-z0-9]+$", max_length=317)
    kind: str = Field(pattern="^[A-Z][A-Za-z0-9]*$", max_length=63)
    plural: str = Field(pattern=DNS_NAME)
    replicas_path: str = Field(default=".spec.replicas", pattern=DOTTED_PATH)
    selector_path: str = Field(default=".status.selector", pattern=DOTTED_PATH)

    @property
    def target_kind(self) -> TargetKind:
        """The kind as it is scaled."""
        group, _, version = self.api_version.partition("/")
        paths = (tuple(path[1:].split(".")) for path in (self.replicas_path, self.selector_path))
        replicas, selector = paths
        return TargetKind(self.kind, group, version, self.plural, replicas=replicas, selector=selector)


class Settings(_Section):
    """The configuration file of the operator (the chart renders it into a ConfigMap).

    Durations are those of a clock that is not scaled; `timing` has them divided by `time_scale`.
    """

    prometheus: dict[str, PrometheusSettings] = Field(default_factory=dict)
    """Each Prometheus, by the name that `spec.metrics.source` refers to."""
    api_server: ApiServerSettings = Field(default_factory=ApiServerSettings)
    tick_seconds: float = Field(default=15.0, gt=0)
    scrape_interval_seconds: float = Field(default=15.0, gt=0)
    rate_window_seconds: float | None = Field(default=None, gt=0)
    """Window of every rate; absent: 60 s, or four scrapes where that is longer."""
    time_scale: float = Field(default=1.0, ge=1)
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; empty: all."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port of /metrics, /healthz and /readyz; 0 takes a free one."""
    host: str = "0.0.0.0"
    advisory: bool = False
    """Dry run: every resource is treated as Advisory; nothing is scaled and nothing rendered."""
    cluster_scoped: bool = True
    """Rights on what belongs to no namespace: without them no GPUPool, BenchmarkProfile or node."""
    render: bool = False
    """Rendering of `spec.runtime` into Deployments and what belongs to them (needs the rights for it)."""
    render_namespaces: tuple[str, ...] = ()
    """Namespaces with rights to render; empty: all that are watched."""
    pre_pull: bool = False
    """DaemonSets that keep images on nodes (needs the rights for them)."""
    scale_kinds: tuple[str | TargetKindSettings, ...] = ()
    """Kinds that are scaled beside Deployments: by name where they are known, else as they are served (needs the rights
    for them)."""
    device_classes: tuple[str, ...] = ()
    """DeviceClasses of whole GPUs, which pods claim (needs the rights to watch claims); empty: none are counted."""
    choose_victims: bool = False
    """Deletion costs on the pods that a scale-down is to end (needs the right to patch pods)."""
    writes_switch: str = Field(default="", pattern="^([a-z0-9.-]+/[a-z0-9.-]+)?$")
    """Namespace and name of the ConfigMap that stops all writes; empty: there is none."""
    sizing_store: str = Field(default="", pattern="^([a-z0-9.-]+/[a-z0-9.-]+)?$")
    """Namespace and beginning of the names of the ConfigMaps that keep sizings over a restart; empty: none are kept."""
    pod_monitor_labels: dict[str, str] = Field(default_factory=dict)
    """Labels by which the cluster's Prometheus selects PodMonitors."""
    leader_elect: bool = False
    """Election by a Lease, whose holder alone writes; without it there must be one operator."""
    lease_name: str = Field(default="firsttoken", pattern=DNS_NAME)
    lease_namespace: str = Field(default="", pattern=f"^$|{DNS_NAME}")
    """Namespace of the Lease: that of the operator's pod."""
    initial_streaming: bool = False
    """Fill the caches by a streaming list; only for API servers that are known to support it."""
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @field_validator("prometheus", mode="before")
    @classmethod
    def _expand_urls(cls, sources: Any) -> Any:
        """A source may be written as its URL alone."""
        if not isinstance(sources, dict):
            return sources
        return {name: {"url": source} if isinstance(source, str) else source for name, source in sources.items()}

    @field_validator("prometheus")
    @classmethod
    def _check_names(cls, sources: dict[str, PrometheusSettings]) -> dict[str, PrometheusSettings]:
        for name in sources:
            if not re.fullmatch(DNS_NAME, name):
                raise ValueError(f"{name!r} is not a name; use lower-case letters, digits and dashes")
        return sources

    @field_validator("scale_kinds")
    @classmethod
    def _check_kinds(cls, kinds: tuple[str | TargetKindSettings, ...]) -> tuple[str | TargetKindSettings, ...]:
        taken = {each.kind for each in (*WATCHED, *OPTIONAL)}
        resources = {f"{each.plural}.{each.group}" for each in (*WATCHED, *OPTIONAL)}
        for entry in kinds:
            name = entry if isinstance(entry, str) else entry.kind
            if isinstance(entry, str) and name not in NAMED:
                known = ", ".join(NAMED)
                raise ValueError(f"{name!r} is not known by name; use {known}, or give apiVersion, kind and plural")
            if not isinstance(entry, str) and name in NAMED:
                raise ValueError(f"{name} is known; give its name alone")
            if name in taken:
                raise ValueError(f"{name} is there already; name each kind once, and none that is watched anyway")
            kind = NAMED[entry] if isinstance(entry, str) else entry.target_kind
            resource = f"{kind.plural}.{kind.group}"
            if resource in resources:
                raise ValueError(f"{resource} is there already; give each resource one kind")
            taken.add(name)
            resources.add(resource)
        return kinds

    @property
    def target_kinds(self) -> tuple[TargetKind, ...]:
        """The kinds that are scaled beside Deployments."""
        return tuple(NAMED[kind] if isinstance(kind, str) else kind.target_kind for kind in self.scale_kinds)

    @property
    def timing(self) -> Timing:
        """The durations that the process really waits, divided by the time scale."""
        window = self.rate_window_seconds or max(60.0, SCRAPES_PER_RATE_WINDOW * self.scrape_interval_seconds)
        return Timing(
            scale=self.time_scale,
            tick_seconds=self.tick_seconds / self.time_scale,
            scrape_interval_seconds=self.scrape_interval_seconds / self.time_scale,
            rate_window_seconds=window / self.time_scale,
            scale_down_limit_window_seconds=TEN_MINUTES / self.time_scale,
            foreign_write_window_seconds=TEN_MINUTES / self.time_scale,
        )


def load(file: Path | None, overrides: dict[str, Any]) -> Settings:
    """Read the configuration file (None: only defaults) and put the flags that were given over it.

    Raises `SettingsError`.
    """
    document: Any = {}
    if file is not None:
        try:
            document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise SettingsError(f"{file}: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{file}: a mapping of settings is expected, not a {type(document).__name__}")
    try:
        settings = Settings.model_validate(document | overrides)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{file or 'settings'}: {key}: {first['msg'].removeprefix('Value error, ')}") from error
    if settings.rate_window_seconds and settings.rate_window_seconds < 4 * settings.scrape_interval_seconds:
        least = SCRAPES_PER_RATE_WINDOW * settings.scrape_interval_seconds
        raise SettingsError(f"rateWindowSeconds: a rate needs 4 scrapes; use at least {least:g}")
    if not settings.cluster_scoped and not settings.namespaces:
        raise SettingsError("namespaces: clusterScoped: false needs them; without these rights not all can be watched")
    if settings.leader_elect and not settings.lease_namespace:
        raise SettingsError("leaseNamespace: leaderElect needs it; in a pod set POD_NAMESPACE by the downward API")
    return settings
