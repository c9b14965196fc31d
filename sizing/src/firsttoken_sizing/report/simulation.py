"""A simulation for people (a table) and for programs (JSON; the names are a public contract)."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from firsttoken_sizing.answer import Answer
from firsttoken_sizing.performance.limits import Bound, bounds
from firsttoken_sizing.profile import STATISTICS, Latency
from firsttoken_sizing.report.document import configuration_json, latency_json
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.outcome import Outcome, Summary
from firsttoken_sizing.simulation.subject import Subject
from firsttoken_sizing.workload import Sla

_DIGITS = 6
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True, repr=False)
class Simulated(Answer):
    """One deployment that was simulated. `load` says in words what was offered, `settings` are of the whole fleet."""

    namespace: str
    name: str
    subject: Subject
    settings: Settings
    arrivals: str
    load: str
    seed: int
    sla: Sla
    outcome: Outcome
    summary: Summary

    @property
    def title(self) -> str:
        """Name of the deployment."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def limits(self) -> tuple[Bound, ...]:
        """The limits of the SLA against what was simulated."""
        return tuple(bounds(self.summary, self.sla))


def verdict(simulated: Simulated) -> str:
    """One line: whether the SLA was kept, by which statistic, and with how many replicas."""
    key, replicas = simulated.subject.key, simulated.settings.replicas
    fleet = f"{replicas} {'replica' if replicas == 1 else 'replicas'} of {key.gpus_per_replica} x {key.gpu}"
    limits = simulated.limits
    if not limits:
        return f"{fleet}: no limit is declared."
    kept = [bound.kept for bound in limits]
    word = "missed" if False in kept else "not known" if None in kept else "kept"
    shown = (
        f"{bound.name} is {_milliseconds(bound.value_milliseconds)}, at most {bound.limit.milliseconds:,g} ms asked"
        for bound in limits
    )
    return f"SLA {word} with {fleet}: {'; '.join(shown)}."


def _milliseconds(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f} ms"


def simulation_json(simulated: Simulated) -> dict[str, Any]:
    """The document of one simulation. Latencies in milliseconds, rates in requests a second; not known is null."""
    key, settings, summary = simulated.subject.key, simulated.settings, simulated.summary
    return {
        "namespace": simulated.namespace,
        "name": simulated.name,
        **configuration_json(key),
        "replicas": settings.replicas,
        "routing": settings.routing.value,
        "engine": simulated.subject.engine.value,
        "batching": settings.batching.value,
        "maxBatch": simulated.subject.step.max_batch,
        "tokensPerStep": settings.scheduler.tokens_per_step,
        "kvCacheTokens": settings.kv_cache_tokens,
        "kvAdmission": settings.kv_admission.value,
        "stepModel": simulated.subject.source,
        "arrivals": simulated.arrivals,
        "load": simulated.load,
        "seed": simulated.seed,
        "requests": summary.requests,
        "seconds": _round(summary.window_seconds),
        "requestsPerSecond": _round(summary.requests_per_second),
        "ttftMilliseconds": latency_json(summary.ttft),
        "itlMilliseconds": latency_json(summary.itl),
        "endToEndMilliseconds": latency_json(summary.end_to_end),
        "sla": [
            {
                "limit": bound.name,
                "milliseconds": bound.limit.milliseconds,
                "simulatedMilliseconds": _round(bound.value_milliseconds),
                "kept": bound.kept,
            }
            for bound in simulated.limits
        ],
        "gpuBusyPercent": _round(summary.busy_percent),
        "meanBatch": _round(summary.mean_batch),
        "kvPeakPercent": _round(summary.kv_peak_percent),
        "queueing": {
            "queuedPercent": _round(summary.queued_percent),
            "waitMilliseconds": latency_json(summary.wait),
            "preemptions": summary.preemptions,
        },
    }


def simulation_table(simulated: Simulated) -> Table:
    """One simulation as a table."""
    key, settings, summary = simulated.subject.key, simulated.settings, simulated.summary
    table = Table(title=f"{simulated.title}: {simulated.load}", title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("value", overflow="fold")
    replica = f"{key.gpus_per_replica} x {key.gpu}, {key.precision}, {settings.batching.value}"
    table.add_row("replicas", f"{settings.replicas} of {replica}")
    table.add_row("routing", settings.routing.value)
    table.add_row("requests", f"{summary.requests} in {summary.window_seconds:.4g} s, seed {simulated.seed}")
    table.add_row("requests/s", f"{summary.requests_per_second:.4g}")
    table.add_section()
    table.add_row("latencies in ms", " / ".join(STATISTICS))
    for name, latency in (
        ("TTFT", summary.ttft),
        ("ITL", summary.itl),
        ("E2E", summary.end_to_end),
        ("wait for admission", summary.wait),
    ):
        table.add_row(name, _latency(latency))
    for bound in simulated.limits:
        verdict = {True: "kept", False: "BROKEN", None: "not known"}[bound.kept]
        table.add_row(f"limit {bound.name}", f"{bound.limit.milliseconds:g}: {verdict}")
    table.add_section()
    table.add_row("GPUs busy", f"{summary.busy_percent:.1f} %")
    table.add_row("mean batch", f"{summary.mean_batch:.1f} of {simulated.subject.step.max_batch}")
    peak = summary.kv_peak_percent
    table.add_row("KV cache at most", _UNKNOWN if peak is None else f"{peak:.1f} %")
    table.add_row("queued", f"{summary.queued_percent:.1f} % of the requests; preemptions: {summary.preemptions}")
    return table


def requests_csv(outcome: Outcome) -> str:
    """Every request as a line of CSV: seconds as simulated, latencies in milliseconds; an ITL of one token is empty."""
    requests = outcome.requests
    columns = {
        "arrival_s": outcome.arrival_s,
        "input_tokens": requests.input_tokens,
        "output_tokens": requests.output_tokens,
        "replica": outcome.replica,
        "admitted_s": outcome.admitted_s,
        "first_token_s": outcome.first_token_s,
        "finish_s": outcome.finish_s,
        "ttft_ms": 1000 * outcome.ttft_s,
        "itl_ms": 1000 * outcome.itl_s,
        "e2e_ms": 1000 * outcome.end_to_end_s,
        "queued": outcome.queued.astype(np.int64),
        "preemptions": outcome.preemptions,
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        writer.writerow([_cell(value) for value in values])
    return text.getvalue()


def _cell(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if np.isnan(value) else f"{value:.6f}"


def _latency(latency: Latency) -> str:
    values = (getattr(latency, statistic) for statistic in STATISTICS)
    return " / ".join(
        _UNKNOWN if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}" for value in values
    )


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
