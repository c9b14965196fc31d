"""Input and output of an online replica: requests, and the observer that is told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from firsttoken_sizing.simulation.kernel import WorkItem


class RequestTooLarge(ValueError):
    """The request would not fit into an empty KV cache, so it could never be admitted."""


@dataclass(slots=True, eq=False)
class Request(WorkItem):
    """One request of an online replica. NB: an abort cuts `output` to the tokens that it had got by then."""

    number: int = 0
    finish_reason: str = "length"
    """Reason of its end: `length` (its limit), `stop` (the model had no more to say) or `abort`."""
    is_aborted: bool = False
    is_done: bool = False
    """True once its last token is out, or it was dropped."""

    @property
    def cached(self) -> int:
        """Prompt tokens that a prefix cache holds: they take KV cache and are attended to, but not computed."""
        return self.input - self.uncached

    @property
    def ttft_seconds(self) -> float:
        """Arrival to first token, the wait for a step included."""
        return self.first_token - self.arrival

    @property
    def end_to_end_seconds(self) -> float:
        """Arrival to last token."""
        return self.finish - self.arrival

    @property
    def itl_seconds(self) -> float | None:
        """Mean time between two tokens, (E2E - TTFT) / (output tokens - 1); None for a single token."""
        return (self.finish - self.first_token) / (self.output - 1) if self.output > 1 else None


class Observer(Protocol):
    """Observer of a replica while it advances, in the order of virtual time."""

    def prefilled(self, request: Request) -> None:
        """The prompt is computed and the first token is out."""

    def decoded(self, steps: int, requests: int, first_seconds: float, growth_seconds: float) -> None:
        """Each of `requests` got a token in each of `steps`, which took `first + i*growth` seconds, i = 0, 1, ...

        Of a static batch this is told at its end.
        """

    def finished(self, request: Request) -> None:
        """The last token is out, or the request was aborted (`is_aborted`)."""
