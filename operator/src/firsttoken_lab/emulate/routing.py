"""Router in front of the replicas: picks one for each request.

Only the choice is here; who is ready and what happens to the request is the fleet's business.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from firsttoken_sizing.workload import Routing


class Loaded(Protocol):
    """Something with a load that a router may compare."""

    @property
    def in_flight(self) -> int:
        """Requests that it holds now."""


Replica = TypeVar("Replica", bound=Loaded)
Router = Callable[[Sequence[Replica]], Replica]


def make_router(routing: Routing, seed: int) -> Router[Replica]:
    """A router for `routing`; ties of the least loaded are broken at random, as several gateways would."""
    rng = random.Random(seed)
    if routing is Routing.RANDOM:
        return rng.choice
    if routing is Routing.LEAST_LOADED:

        def least_loaded(replicas: Sequence[Replica]) -> Replica:
            least = min(replica.in_flight for replica in replicas)
            return rng.choice([replica for replica in replicas if replica.in_flight == least])

        return least_loaded
    turn = 0

    def round_robin(replicas: Sequence[Replica]) -> Replica:
        nonlocal turn
        turn += 1
        return replicas[turn % len(replicas)]

    return round_robin
