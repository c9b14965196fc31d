"""Gateway in front of the replicas: what it has seen of each request, which some peers bring along and scale on.

llm-d's endpoint picker and Dynamo's frontend see every request themselves: when it came, its tokens, its latencies. Our
policy does not: it reads the metrics of the engines. NB: nothing is counted before a policy asks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.simulation.fleet import Fleet


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The requests of one window. A mean over no requests is None."""

    window_seconds: float
    started: int
    """Requests that came, answered or not."""
    mean_input_tokens: float | None
    """Mean over those that came."""
    cached_input_share: float | None
    """Share of the input tokens of those that came, 0..1: in a prefix cache already."""
    mean_output_tokens: float | None
    """Mean over those that were finished."""
    ttft_seconds: NDArray[np.float64]
    """One entry for each first token of the window."""
    tpot_seconds: NDArray[np.float64]
    """Mean time between the tokens of each request that was finished in the window and has more than one token."""


class Gateway:
    """The gateway of a simulated fleet."""

    def __init__(self, fleet: Fleet) -> None:
        """`fleet`: advanced by the play."""
        self._fleet = fleet
        self._now_seconds = 0.0
        self._known = np.empty(0, np.int64)
        self._sent = 0

    def look(self, now_seconds: float) -> Gateway:
        """The same gateway as it was when it was scraped last. Time does not go back."""
        self._now_seconds = now_seconds
        return self

    def seen(self, window_seconds: float) -> Seen:
        """Sum up what came, got its first token, or was finished in the window that ends now.

        NB: always ask for the same window; what is older than it is forgotten.
        """
        now, begin = self._now_seconds, self._now_seconds - window_seconds
        requests, sent = self._fleet.requests, self._fleet.sent
        known = np.concatenate((self._known, np.arange(self._sent, sent)))
        self._sent = sent
        arrival, first, finish = requests.arrival[known], requests.first_token[known], requests.finish[known]
        self._known = known[(finish <= 0) | (finish > begin)]
        came = (arrival > begin) & (arrival <= now)
        # Times lie ahead of the clock where the step that makes the token still runs; 0 is none yet.
        began = (first > max(begin, 0.0)) & (first <= now)
        ended = (finish > max(begin, 0.0)) & (finish <= now)
        output = requests.output[known]
        several = ended & (output > 1)
        tokens, uncached = requests.input[known[came]], requests.uncached[known[came]]
        return Seen(
            window_seconds=window_seconds,
            started=int(came.sum()),
            mean_input_tokens=_mean(tokens),
            cached_input_share=1 - float(uncached.sum() / tokens.sum()) if len(tokens) else None,
            mean_output_tokens=_mean(output[ended]),
            ttft_seconds=first[began] - arrival[began],
            tpot_seconds=(finish[several] - first[several]) / (output[several] - 1),
        )


def _mean(tokens: NDArray[np.int64]) -> float | None:
    return float(tokens.mean()) if len(tokens) else None
