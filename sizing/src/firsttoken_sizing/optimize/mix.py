"""The cheapest mix of several kinds of GPUs for one load: whole replicas, whole servers, and a share that stays.

An integer linear program. A replica of offer i carries the share s_i of the load and has g_i GPUs. The n_i replicas
stand in m_i lots of r_i (the replicas of a server that is bought; one that is rented), which cost c_i each:

    minimize    sum of c_i m_i
    subject to  sum of s_i n_i >= 1
                sum of s_i n_i over what is never taken back >= the share that stays
                sum of g_i n_i over the offers of a place <= the GPUs that it has
                n_i <= r_i m_i, and n and m whole

Where offers have ranks, the GPUs of the last rank are made as few as possible before anything else, then those of the
rank before it, and so on: the first ranks are filled first. HiGHS solves it by branch and cut (Huangfu and Hall,
"Parallelizing the dual revised simplex method", Mathematical Programming Computation 2018). Of mixes that cost the
same, the one with the fewest GPUs wins, then the offers that come first. A sum that misses by rounding alone counts as
reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from firsttoken_sizing.rounding import NOISE, ceiling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SCALE = 1000.0
"""Factor on rows whose right side is about 1: the solver takes 1e-6 for nothing, and here 1e-9 is."""
_FIRST_MARGIN = 1e-8


@dataclass(frozen=True, slots=True)
class Offer:
    """Replicas of one kind that can be had."""

    place: str
    share: float
    """Share of the load that one replica carries inside the SLA."""
    gpus: int
    """GPUs of one replica."""
    cost: float
    """Cost of one lot, in any unit that all offers have."""
    lot: int = 1
    """Replicas that are paid for together."""
    is_spot: bool = False
    """True of what may be taken back at any time."""
    rank: int = 0
    """Offers of a lower rank are filled first, whatever they cost."""


@dataclass(frozen=True, slots=True)
class Part:
    """So many replicas of one offer."""

    offer: Offer
    replicas: int

    @property
    def gpus(self) -> int:
        """GPUs of its replicas."""
        return self.replicas * self.offer.gpus

    @property
    def share(self) -> float:
        """Share of the load that its replicas carry; of more than the load it is above 1."""
        return self.replicas * self.offer.share

    @property
    def cost(self) -> float:
        """Cost of its whole lots."""
        return self.offer.cost * -(-self.replicas // self.offer.lot)


@dataclass(frozen=True, slots=True)
class Mix:
    """Replicas that carry the load together: one part for each offer that is used, in the order of the offers."""

    parts: tuple[Part, ...]

    @property
    def cost(self) -> float:
        """Cost of all parts."""
        return sum(part.cost for part in self.parts)

    @property
    def gpus(self) -> int:
        """GPUs of all parts."""
        return sum(part.gpus for part in self.parts)

    @property
    def share(self) -> float:
        """Share of the load that all parts carry."""
        return sum(part.share for part in self.parts)

    @property
    def share_that_stays(self) -> float:
        """Share of the load that is still carried when all of spot is taken back."""
        return sum(part.share for part in self.parts if not part.offer.is_spot)

    def weight(self, part: Part) -> float:
        """Share of the traffic (0 to 1) that a part gets: in proportion to what it carries."""
        return part.share / self.share


def cheapest_mix(offers: Sequence[Offer], most_gpus: dict[str, int], floor_share: float = 1.0) -> Mix | None:
    """The cheapest mix that carries the load; None where all that there is does not.

    `most_gpus`: GPUs of each place, by its name; a place that is not in it has as many as are asked for. `floor_share`:
    share of the load (0 to 1) that must be carried without spot. A replica carries a share above 0.
    """
    if not offers:
        return None
    most = np.array([_most_replicas(offer, most_gpus.get(offer.place)) for offer in offers])
    margin = 0.0
    while (replicas := _solved(offers, most, most_gpus, floor_share, margin)) is not None:
        mix = Mix(tuple(Part(offer, n) for offer, n in zip(offers, replicas, strict=True) if n))
        if mix.share >= 1 - NOISE and mix.share_that_stays >= floor_share - NOISE:
            return mix
        # NB: the solver's own tolerance took a little too few for enough.
        margin = max(_FIRST_MARGIN, 2 * margin)
    return None


def _most_replicas(offer: Offer, gpus: int | None) -> int:
    """Replicas beyond which more carry nothing that is asked for, or that there are no GPUs for."""
    enough = ceiling(1 / offer.share)
    return enough if gpus is None else min(enough, gpus // offer.gpus)


def _solved(
    offers: Sequence[Offer], most: NDArray[np.int_], most_gpus: dict[str, int], floor_share: float, margin: float
) -> list[int] | None:
    """Replicas of each offer; None where the program has no solution. `margin`: on the load, a share of it."""
    # NB: imported here, it takes longer than the rest of a sizing.
    from scipy.optimize import Bounds, LinearConstraint, milp

    count = len(offers)
    share = np.array([min(1.0, offer.share) for offer in offers])
    gpus = np.array([float(offer.gpus) for offer in offers])
    lot = np.array([float(offer.lot) for offer in offers])
    stays = np.array([not offer.is_spot for offer in offers])
    zeros = np.zeros(count)
    solve = partial(milp, integrality=np.ones(2 * count), bounds=Bounds(0, np.concatenate([most, np.ceil(most / lot)])))
    rows = [
        LinearConstraint(_SCALE * np.concatenate([share, zeros]), _SCALE * (1 + margin), np.inf),
        LinearConstraint(_SCALE * np.concatenate([share * stays, zeros]), _SCALE * (floor_share + margin), np.inf),
        LinearConstraint(np.hstack([np.eye(count), -np.diag(lot)]), -np.inf, 0),
    ]
    for place, there in most_gpus.items():
        here = np.array([offer.place == place for offer in offers])
        rows.append(LinearConstraint(np.concatenate([gpus * here, zeros]), -np.inf, there))
    found = None
    cost = np.array([offer.cost for offer in offers])
    ranks = np.array([offer.rank for offer in offers])
    for objective in (
        *(np.concatenate([gpus * (ranks == rank), zeros]) for rank in sorted({*ranks.tolist()} - {0}, reverse=True)),
        np.concatenate([zeros, cost / (cost.max() or 1.0)]),
        np.concatenate([gpus, zeros]),
        np.concatenate([np.arange(count, dtype=float), zeros]),
    ):
        answer = solve(objective, constraints=rows, options={"mip_rel_gap": 0.0})
        if answer.x is None:
            break
        found, least = answer.x, float(objective @ np.round(answer.x))
        rows.append(
            LinearConstraint(_SCALE * objective / (least or 1.0), -np.inf, _SCALE * (1 + NOISE) if least else 0)
        )
    return None if found is None else [round(n) for n in found[:count]]
