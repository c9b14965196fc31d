"""Sharing of a pool's GPUs among those that want more: minimums, then classes of priority, then fair shares.

Inside a class the GPUs go by weighted max-min fairness, by progressive filling (Bertsekas and Gallager, "Data
Networks", 2nd ed., section 6.5.2): one replica at a time to the tenant that holds the least by its weight, and there to
the deployment that holds the least, until each has what it asked for or nothing is left that it could take. That is
dominant resource fairness (Ghodsi et al., NSDI 2011, algorithm 1) where there is one resource, and replicas are whole.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from firsttoken_operator.decide.ledger import SHORT, Ledger
from firsttoken_operator.domain import Reason

Order = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """Replicas that one deployment wants on top of what is charged. `gpus`: those of one replica."""

    uid: str
    namespace: str
    gpus: int
    replicas: int
    priority: int
    held_gpus: int
    order: Order
    """Rank among equals: by age, then by name."""
    is_minimum: bool = False

    @property
    def group(self) -> tuple[bool, int]:
        """Rank of its class: guaranteed minimums first, then by priority."""
        return not self.is_minimum, -self.priority


@dataclass(frozen=True, slots=True)
class Grant:
    """Replicas that a deployment gets, what keeps the rest from it, and that in words. None: it gets all."""

    replicas: int = 0
    refused: Reason | None = None
    words: str = ""


def share(claims: Iterable[Claim], ledger: Ledger) -> Mapping[str, Grant]:
    """The grants by uid. What is given is charged to the ledger."""
    granted: defaultdict[str, Grant] = defaultdict(Grant)
    for _, group in groupby(sorted(claims, key=lambda c: (c.group, c.order)), key=attrgetter("group")):
        for claim, grant in _fill(list(group), ledger):
            before = granted[claim.uid]
            granted[claim.uid] = Grant(before.replicas + grant.replicas, grant.refused, grant.words)
            # NB: what its replica waits for must not go to a less urgent one of fewer GPUs as it comes, bit by bit.
            if grant.refused in SHORT and ledger.free_gpus + ledger.coming_gpus >= claim.gpus > ledger.free_gpus:
                ledger.withhold(claim.gpus)
    return granted


def _fill(claims: list[Claim], ledger: Ledger) -> Iterable[tuple[Claim, Grant]]:
    """Fill one class, one replica after the other."""
    if ledger.holds((c.namespace, c.gpus * c.replicas) for c in claims):
        for claim in claims:
            ledger.take(claim.namespace, claim.gpus, claim.replicas)
        return [(claim, Grant(claim.replicas)) for claim in claims]
    waiting: defaultdict[str, list[tuple[int, Order, Claim]]] = defaultdict(list)
    for claim in claims:
        heapq.heappush(waiting[ledger.tenant_name(claim.namespace)], (claim.held_gpus, claim.order, claim))
    tenants = [(ledger.tenant_share(heap[0][2].namespace), heap[0][1], name) for name, heap in waiting.items()]
    heapq.heapify(tenants)
    given: dict[str, int] = dict.fromkeys((c.uid for c in claims), 0)
    refused: dict[str, tuple[Reason, str]] = {}
    while tenants:
        _, _, name = heapq.heappop(tenants)
        held, order, claim = heapq.heappop(waiting[name])
        why = ledger.refusal(claim.namespace, claim.gpus)
        if why is not None:
            refused[claim.uid] = why, ledger.words(why, claim.namespace, claim.gpus)
        else:
            ledger.take(claim.namespace, claim.gpus)
            given[claim.uid] += 1
            if given[claim.uid] < claim.replicas:
                heapq.heappush(waiting[name], (held + claim.gpus, order, claim))
        if heap := waiting[name]:
            heapq.heappush(tenants, (ledger.tenant_share(claim.namespace), heap[0][1], name))
    return [(claim, Grant(given[claim.uid], *refused.get(claim.uid, (None, "")))) for claim in claims]
