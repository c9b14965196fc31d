"""Discrete-event simulation of one replica or a fleet: the judge of the closed forms in `performance`.

Step by step and without their approximations: static batching, in-flight batching with whole or chunked prompts, KV
cache admission, any arrivals. It stands on the same step model, so it says nothing about the error of that.
"""

from __future__ import annotations

from firsttoken_sizing.engines.scheduler import KvAdmission
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.outcome import Outcome, simulate
from firsttoken_sizing.simulation.requests import (
    Requests,
    bursty_arrivals,
    client_pauses,
    drawn_requests,
    equal_requests,
    poisson_arrivals,
    read_trace,
)

__all__ = [
    "KvAdmission",
    "Outcome",
    "Requests",
    "Settings",
    "bursty_arrivals",
    "client_pauses",
    "drawn_requests",
    "equal_requests",
    "poisson_arrivals",
    "read_trace",
    "simulate",
]
