"""`spec.sla`: what the user waits for, and how long."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, Rule, camel_case, described, optional
from firsttoken_sizing.workload import Percentile, SlaMode

MAX_MILLISECONDS = 86_400_000

Milliseconds = Annotated[Int, Field(ge=1, le=MAX_MILLISECONDS)]


class LatencyLimit(ApiModel):
    """Limit on this statistic of a latency, in milliseconds."""

    milliseconds: Milliseconds = described("The largest latency allowed.", unit="milliseconds")
    percentile: Percentile = described(
        "The statistic that has to stay below it; Mean is the arithmetic mean.", default=Percentile.P95
    )


def _needs(mode: SlaMode, example: str, *limits: str) -> Rule:
    """Need for at least one of the limits."""
    field, *others = fields = [camel_case(limit) for limit in limits]
    return Rule(
        cel=" || ".join((f"self.mode != '{mode.value}'", *(f"has(self.{field})" for field in fields))),
        problem=f"mode {mode.value} needs {' or '.join((field, *others))}",
        fix=f"set sla.{field}, for example {{milliseconds: {example}}}",
        holds=lambda sla: sla.mode is not mode or any(getattr(sla, limit) is not None for limit in limits),
        field=field,
        required=True,
    )


def _refuses(mode: SlaMode, limit: str, fix: str) -> Rule:
    field = camel_case(limit)
    return Rule(
        cel=f"self.mode != '{mode.value}' || !has(self.{field})",
        problem=f"mode {mode.value} has no {field}",
        fix=fix,
        holds=lambda sla: sla.mode is not mode or getattr(sla, limit) is None,
        field=field,
    )


_NOT_SEQUENTIAL = "remove it (the caller sees only the whole answer), or set sla.mode: Streaming"
_NOT_OFFLINE = "remove it (no caller waits for a single answer), or set sla.mode: Streaming"


class ServiceLevel(ApiModel):
    """Latency limits; one that is absent does not bind."""

    RULES = (
        _needs(SlaMode.STREAMING, "300", "time_to_first_token", "inter_token_latency", "end_to_end"),
        _needs(SlaMode.SEQUENTIAL, "15000", "end_to_end"),
        _refuses(SlaMode.SEQUENTIAL, "time_to_first_token", _NOT_SEQUENTIAL),
        _refuses(SlaMode.SEQUENTIAL, "inter_token_latency", _NOT_SEQUENTIAL),
        _refuses(SlaMode.OFFLINE, "time_to_first_token", _NOT_OFFLINE),
        _refuses(SlaMode.OFFLINE, "inter_token_latency", _NOT_OFFLINE),
        _refuses(SlaMode.OFFLINE, "end_to_end", _NOT_OFFLINE),
    )

    mode: SlaMode = described(
        "Streaming: the user reads along (needs a limit, whichever it is). Sequential: the caller waits for the whole "
        "answer (needs endToEnd, refuses the others). Offline: no caller waits (refuses all).",
        default=SlaMode.STREAMING,
    )
    time_to_first_token: LatencyLimit | None = optional(
        "Time to first token, measured at the server, queueing included.", absent="does not bind"
    )
    inter_token_latency: LatencyLimit | None = optional(
        "Inter-token latency of a request: (end to end - time to first token) / (output tokens - 1).",
        absent="does not bind",
    )
    end_to_end: LatencyLimit | None = optional(
        "Time to the last token, measured at the server.", absent="does not bind"
    )
