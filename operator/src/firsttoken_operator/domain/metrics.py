"""Signals of one deployment as a decision reads them, with what they are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firsttoken_operator.domain.measurement import Measurement, Missing, Shortcoming, health_of
from firsttoken_operator.domain.reasons import Reason
from firsttoken_operator.domain.ttft import TtftInterval

NOT_OBSERVED = Missing(Reason.NO_SERIES)
NO_GATEWAY = Missing(Reason.SOURCE_NOT_CONFIGURED, "no gateway counter is named for this source")


@dataclass(frozen=True, slots=True)
class Metrics:
    """Live signals of one resource over the last rate window, summed over the ready pods of the owner chain.

    `health` is Present, Idle, or why the data cannot be trusted (Missing, Stale, Partial, Recovering, ErrorsPresent);
    `detail` is the cause in one sentence. `arrivals`: requests a second that arrived (never completions alone); a
    partial set of pods gives a lower bound with coverage < 1. `first_tokens`: requests a second that got their first
    token. `waiting`, `running`: requests now. `error_share`: failed / ended, 0..1. `kv_percent`: of the fullest ready
    pod.
    """

    health: Reason
    detail: str
    arrivals: Measurement
    first_tokens: Measurement
    waiting: Measurement
    running: Measurement
    error_share: Measurement
    kv_percent: Measurement
    ttft: TtftInterval | None
    window_seconds: float
    input_tokens: Measurement = NOT_OBSERVED
    """Mean prompt, tokens: of the requests that got their first token, or of those that ended where a runtime counts
    prompts then."""
    output_tokens: Measurement = NOT_OBSERVED
    """Mean output of the requests, tokens."""
    gateway_arrivals: Measurement = NO_GATEWAY
    """Requests a second that a gateway in front of the pods counted as they came, where there is one."""
    overdue: bool = False
    """The newest scrape of a pod failed or is late: rates read low until the next one."""
    family: str = ""
    """Families of series that the pods publish; empty: nothing is known of them."""
    shortcomings: tuple[Shortcoming, ...] = ()
    awaited: bool = False
    """The source has not answered yet at this tick, as it did at the last one: what this says counts for nothing."""
    under_way: Mapping[str, float] = field(default_factory=dict)
    """Requests that run or wait, by name of the pod; a pod of which that is not known is absent."""

    def lacks(self, reason: Reason) -> Shortcoming | None:
        """Find the shortcoming of this reason, if there is one."""
        return next((each for each in self.shortcomings if each.reason is reason), None)

    @property
    def may_raise(self) -> bool:
        """True where this data may ask for more replicas."""
        return health_of(self.health).may_raise

    @property
    def may_lower(self) -> bool:
        """True where this data may give replicas back."""
        return health_of(self.health).may_lower
