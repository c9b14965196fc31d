"""One simulation from beginning to end: every replica serves from the start, every request is answered."""

from __future__ import annotations

import math

from firsttoken_sizing.simulation.fleet import Fleet, Settings
from firsttoken_sizing.simulation.outcome import Outcome
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel

_DEFAULT = Settings()


def simulate(step: StepModel, requests: Requests, settings: Settings = _DEFAULT) -> Outcome:
    """Simulate until every request is answered. The same arguments give the same outcome."""
    simulated = Fleet(step, requests, settings)
    for replica in range(settings.replicas):
        simulated.open(replica, 0.0)
    simulated.advance(math.inf)
    work, fleet = simulated.requests, simulated.replicas
    # Columns of their own: they hold no reference to the records, which are twice as large.
    return Outcome(
        requests=requests,
        arrival_s=work["arrival"].copy(),
        admitted_s=work["admitted"].copy(),
        first_token_s=work["first_token"].copy(),
        finish_s=work["finish"].copy(),
        released_s=work["released"].copy(),
        replica=work["replica"].copy(),
        preemptions=work["preemptions"].copy(),
        queued=work["queued"] > 0,
        busy_s=fleet["busy"].copy(),
        batch_seconds=fleet["batch_seconds"].copy(),
        kv_peak_tokens=fleet["kv_peak"].copy(),
        kv_reserved_peak_tokens=fleet["reserved_peak"].copy(),
        counted_s=max(0.0, min(settings.count_until_s, float(work["released"].max())) - settings.count_from_s),
    )
