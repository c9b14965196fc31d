"""Strategies of Hypothesis for a decision: any number in any field, pods in any state, and signals that last."""

from __future__ import annotations

from hypothesis import strategies as st

from firsttoken_operator.domain import Idle, LateShare, Measurement, Metrics, Missing, Reason, TtftInterval, Value
from firsttoken_operator.domain.measurement import LARGEST_VALUE

TRUSTED = (Reason.PRESENT, Reason.IDLE, Reason.LOW_RESOLUTION)
UNTRUSTED = (Reason.MISSING, Reason.STALE, Reason.PARTIAL, Reason.RECOVERING, Reason.ERRORS_PRESENT)

unknown = st.sampled_from([Reason.NO_SERIES, Reason.NOT_A_NUMBER])
numbers = st.one_of(
    st.floats(0, 1000), st.floats(0, LARGEST_VALUE), st.sampled_from([0.0, -0.0, 5e-324, LARGEST_VALUE])
)
measurements: st.SearchStrategy[Measurement] = st.one_of(
    st.builds(Value, numbers), st.just(Idle()), st.builds(Missing, unknown)
)
ends = st.one_of(st.none(), st.floats(), numbers)
"""The upper end of a bucket is not validated: not a number, infinite or negative."""
late_shares = st.one_of(
    st.none(), st.lists(st.floats(0, 1), min_size=3, max_size=3).map(lambda shares: LateShare(*sorted(shares)))
)
intervals = st.one_of(st.none(), st.builds(TtftInterval, numbers, ends, numbers, numbers, late_shares))


def any_metrics(health: tuple[Reason, ...] = TRUSTED + UNTRUSTED) -> st.SearchStrategy[Metrics]:
    """Any number in every field."""
    return st.builds(
        Metrics,
        health=st.sampled_from(health),
        detail=st.just(""),
        arrivals=measurements,
        first_tokens=measurements,
        waiting=measurements,
        running=measurements,
        error_share=measurements,
        kv_percent=measurements,
        ttft=intervals,
        window_seconds=st.sampled_from([30.0, 60.0, 300.0]),
        input_tokens=measurements,
        output_tokens=measurements,
        gateway_arrivals=measurements,
    )


pods = st.fixed_dictionaries(
    {},
    optional={
        "ready": st.integers(0, 60),
        "starting": st.integers(0, 50),
        "stuck": st.integers(0, 50),
        "terminating": st.integers(0, 50),
        "unschedulable": st.integers(0, 50),
        "failing": st.integers(0, 50),
        "rollout": st.booleans(),
    },
)
settled: st.SearchStrategy[dict[str, int]] = st.just({})
"""Every replica is ready."""
