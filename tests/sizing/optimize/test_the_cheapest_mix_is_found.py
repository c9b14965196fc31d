"""Whole replicas of several kinds at least cost, held to exhaustive search; and what each mix must keep."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.optimize.mix import Mix, Offer, Part, cheapest_mix
from firsttoken_sizing.rounding import NOISE
from tests.fixtures.hypothesis_scale import examples

MOST = 5


@st.composite
def offered(draw: st.DrawFn, ranks: tuple[int, ...] = (0,)) -> tuple[list[Offer], dict[str, int], float]:
    """Up to three kinds of replicas in up to two places, of which each carries at least a fifth of the load."""
    offers = [
        Offer(
            place=draw(st.sampled_from(["a", "b"])),
            share=draw(st.floats(0.2, 1.5) | st.sampled_from([0.2, 0.25, 1 / 3, 0.5, 1.0])),
            gpus=draw(st.sampled_from([1, 2, 4])),
            cost=draw(st.integers(0, 12)),
            lot=draw(st.sampled_from([1, 1, 2, 4])),
            is_spot=draw(st.booleans()),
            rank=draw(st.sampled_from(ranks)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    places = draw(st.sets(st.sampled_from(["a", "b"])))
    return (
        offers,
        {place: draw(st.integers(0, 16)) for place in sorted(places)},
        draw(st.sampled_from([0.0, 0.3, 0.6, 1.0])),
    )


def every_mix(offers: Sequence[Offer], most_gpus: dict[str, int], floor_share: float) -> list[Mix]:
    """Every mix that carries the load, keeps the floor, and takes no more GPUs than there are."""
    found = []
    for counts in itertools.product(range(MOST + 1), repeat=len(offers)):
        mix = Mix(tuple(Part(offer, n) for offer, n in zip(offers, counts, strict=True) if n))
        if keeps(mix, most_gpus, floor_share):
            found.append(mix)
    return found


def keeps(mix: Mix, most_gpus: dict[str, int], floor_share: float) -> bool:
    taken = {place: sum(p.gpus for p in mix.parts if p.offer.place == place) for place in most_gpus}
    return (
        mix.share >= 1 - NOISE
        and mix.share_that_stays >= floor_share - NOISE
        and all(taken[place] <= there for place, there in most_gpus.items())
    )


@given(offered())
@settings(max_examples=examples(60), deadline=None)
def test_no_other_whole_numbers_cost_less(question: tuple[list[Offer], dict[str, int], float]) -> None:
    mix, every = cheapest_mix(*question), every_mix(*question)

    assert (mix is None) == (not every)
    if mix is not None:
        assert keeps(mix, *question[1:])
        least = min(one.cost for one in every)
        assert mix.cost == pytest.approx(least)
        assert mix.gpus == min(one.gpus for one in every if one.cost <= least + 1e-6)
        assert sum(mix.weight(part) for part in mix.parts) == pytest.approx(1)


@given(offered(), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_whatever_is_taken_back_of_spot_the_floor_stands(
    question: tuple[list[Offer], dict[str, int], float], data: st.DataObject
) -> None:
    offers, most_gpus, floor_share = question
    mix = cheapest_mix(offers, most_gpus, floor_share)
    if mix is None:
        return
    left = Mix(
        tuple(
            Part(p.offer, data.draw(st.integers(0, p.replicas)) if p.offer.is_spot else p.replicas) for p in mix.parts
        )
    )

    assert left.share >= floor_share - NOISE


@given(offered(), st.floats(1, 3))
@settings(max_examples=examples(40), deadline=None)
def test_more_load_never_costs_less(question: tuple[list[Offer], dict[str, int], float], growth: float) -> None:
    offers, most_gpus, floor_share = question
    more = [replace(o, share=o.share / growth) for o in offers]
    small, large = cheapest_mix(offers, most_gpus, floor_share), cheapest_mix(more, most_gpus, floor_share)

    assert large is None or (small is not None and small.cost <= large.cost * (1 + 1e-6))


@given(offered(ranks=(0, 1, 2)))
@settings(max_examples=examples(80), deadline=None)
def test_a_later_rank_is_used_only_where_the_earlier_ones_are_too_few(
    question: tuple[list[Offer], dict[str, int], float],
) -> None:
    mix, every = cheapest_mix(*question), every_mix(*question)

    def of_ranks(one: Mix) -> tuple[int, ...]:
        return tuple(sum(p.gpus for p in one.parts if p.offer.rank == rank) for rank in (2, 1))

    assert (mix is None) == (not every)
    if mix is not None:
        fewest = min(map(of_ranks, every))
        assert of_ranks(mix) == fewest
        assert mix.cost == pytest.approx(min(one.cost for one in every if of_ranks(one) == fewest))


RENTED = Offer("rented", share=0.10, gpus=1, cost=4.0)
SMALL = Offer("small", share=0.04, gpus=1, cost=1.5)
BOUGHT = Offer("bought", share=0.10, gpus=1, cost=14.0, lot=8)
SPOT = Offer("rented", share=0.10, gpus=1, cost=1.0, is_spot=True)


@pytest.mark.parametrize(
    ("offers", "most_gpus", "floor_share", "expected"),
    [
        # A request costs 40 on the rented and 37.5 on the small ones, of which 25 carry the load to the last.
        ((RENTED, SMALL), {}, 1.0, {"small": 25}),
        # Of 20 small ones that there are; the rest takes 2 rented ones.
        ((RENTED, SMALL), {"small": 20}, 1.0, {"rented": 2, "small": 20}),
        # A server is paid for whole: 8 in one, and for two more it is cheaper to rent.
        ((BOUGHT, RENTED), {}, 1.0, {"bought": 8, "rented": 2}),
        # A second server costs 14: from 4 replicas on, which rented ones take 16 for.
        ((BOUGHT, Offer("rented", 0.05, 1, 4.0)), {}, 1.0, {"bought": 10}),
        # Spot carries what the floor leaves: 6 stay, 4 do not.
        ((RENTED, SPOT), {}, 0.6, {"rented": 6, "rented spot": 4}),
        ((RENTED, SPOT), {}, 0.0, {"rented spot": 10}),
        # Both take GPUs of the same place.
        ((RENTED, SPOT), {"rented": 9}, 0.5, None),
        ((RENTED, SMALL), {"rented": 5, "small": 12}, 1.0, None),
    ],
)
def test_the_worked_table(
    offers: tuple[Offer, ...], most_gpus: dict[str, int], floor_share: float, expected: dict[str, int] | None
) -> None:
    mix = cheapest_mix(offers, most_gpus, floor_share)

    found = mix and {p.offer.place + (" spot" if p.offer.is_spot else ""): p.replicas for p in mix.parts}
    assert found == expected


def test_of_equal_cost_fewer_gpus_win_and_then_the_first() -> None:
    large, same = Offer("large", 0.5, 4, 2.0), Offer("same", 0.5, 2, 2.0)

    assert cheapest_mix([large, same, Offer("last", 0.5, 2, 2.0)], {}) == Mix((Part(same, 2),))


def test_thousands_of_replicas_are_counted_to_the_last() -> None:
    third = Offer("third", share=1 / 3000, gpus=1, cost=1.0)

    mix = cheapest_mix([third, Offer("dear", share=1 / 100, gpus=8, cost=50.0)], {"third": 2999})

    # 3000 would do alone; one is missing, and one of the dear ones stands for it and 29 more.
    assert mix == Mix((Part(third, 2970), Part(Offer("dear", 1 / 100, 8, 50.0), 1)))
    assert math.isclose(mix.share, 1)


def test_there_is_no_mix_of_nothing() -> None:
    assert cheapest_mix([], {}) is None
    assert cheapest_mix([RENTED], {"rented": 0}) is None
