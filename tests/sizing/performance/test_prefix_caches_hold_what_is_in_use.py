"""Hits in prefix caches, held to a cache that evicts what was used least recently, and what more of each input does."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.performance.prefix_cache import hit_share
from firsttoken_sizing.workload import Routing
from tests.fixtures.hypothesis_scale import examples

REQUESTS = 30_000
SHARED, OWN = 3000, 1000


@dataclass
class Cache:
    """Keys with their tokens, the least recently used first."""

    room: int

    def __post_init__(self) -> None:
        self.held: OrderedDict[int, int] = OrderedDict()
        self.used = 0

    def touch(self, key: int, tokens: int) -> bool:
        """Use a key, and evict for it; whether it was there."""
        was_there = key in self.held
        if not was_there:
            self.used += tokens
        self.held[key] = tokens
        self.held.move_to_end(key)
        while self.used > self.room:
            self.used -= self.held.popitem(last=False)[1]
        return was_there


def played(routing: Routing, *, prefixes: int, room: int, replicas: int, requests_per_prefix: float) -> float:
    """Share of the requests that begin like an earlier one and find that beginning in the cache, one by one."""
    rng = np.random.default_rng(3)
    caches = [Cache(room) for _ in range(replicas)]
    in_use, fresh = list(range(prefixes)), prefixes
    known: set[int] = set()
    found, again = 0, 0
    for number in range(REQUESTS):
        slot = int(rng.integers(prefixes))
        prefix = in_use[slot]
        aware = routing is Routing.PREFIX_AWARE
        cache = caches[slot * replicas // prefixes if aware else int(rng.integers(replicas))]
        was_there = cache.touch(prefix, SHARED)
        cache.touch(-number - 1, OWN)
        if prefix in known and number > REQUESTS // 5:
            again += 1
            found += was_there
        known.add(prefix)
        if rng.random() < 1 / requests_per_prefix:
            in_use[slot], fresh = fresh, fresh + 1
    return found / again


@pytest.mark.slow
@pytest.mark.parametrize("routing", [Routing.RANDOM, Routing.PREFIX_AWARE])
@pytest.mark.parametrize("replicas", [1, 4])
@pytest.mark.parametrize("requests_per_prefix", [3.0, math.inf])
@pytest.mark.parametrize("room", [100_000, 400_000, 1_600_000])
def test_hits_are_those_of_a_cache_that_is_played(
    routing: Routing, replicas: int, requests_per_prefix: float, room: int
) -> None:
    again = 1 - 1 / requests_per_prefix

    by_law = hit_share(
        # Of 200 at a time those whose last request has not come yet.
        prefixes=again * 200,
        prefix_tokens=again * SHARED,
        own_tokens=OWN + (1 - again) * SHARED,
        cache_tokens=room,
        replicas=replicas,
        routing=routing,
        requests_per_prefix=requests_per_prefix,
    )

    by_play = played(routing, prefixes=200, room=room, replicas=replicas, requests_per_prefix=requests_per_prefix)
    assert by_law == pytest.approx(by_play, abs=0.04)


inputs = {
    "prefixes": st.integers(1, 10**7),
    "prefix_tokens": st.floats(0, 1e6),
    "own_tokens": st.floats(1, 1e6),
    "cache_tokens": st.floats(0, 1e9),
    "replicas": st.integers(1, 500),
    "requests_per_prefix": st.one_of(st.just(math.inf), st.floats(1.001, 1e6)),
}


@settings(max_examples=examples(200))
@given(st.fixed_dictionaries(inputs), st.sampled_from(list(Routing)), st.floats(1, 10))
def test_more_room_and_fewer_prefixes_never_find_less(asked: dict[str, float], routing: Routing, more: float) -> None:
    share = partial(hit_share, routing=routing)  # type: ignore[arg-type]
    found = share(**asked)

    assert 0 <= found <= 1
    assert found <= share(**asked | {"cache_tokens": asked["cache_tokens"] * more}) + 1e-9
    assert found >= share(**asked | {"prefixes": asked["prefixes"] * more}) - 1e-9
    assert found <= share(**asked | {"requests_per_prefix": asked["requests_per_prefix"] * more}) + 1e-9


@settings(max_examples=examples(200))
@given(st.fixed_dictionaries(inputs), st.integers(1, 100))
def test_replicas_share_the_prefixes_only_behind_a_router_that_knows_them(asked: dict[str, float], more: int) -> None:
    wider = asked | {"replicas": asked["replicas"] + more}

    def share(of: dict[str, float], routing: Routing) -> float:
        return hit_share(**of, routing=routing)  # type: ignore[arg-type]

    assert share(asked, Routing.PREFIX_AWARE) <= share(wider, Routing.PREFIX_AWARE) + 1e-9
    assert share(asked, Routing.RANDOM) >= share(wider, Routing.RANDOM) - 1e-9
    assert share(asked, Routing.RANDOM) <= share(asked, Routing.PREFIX_AWARE) + 1e-9
    assert share(asked, Routing.RANDOM) == share(asked, Routing.LEAST_LOADED) == share(asked, Routing.ROUND_ROBIN)


def test_without_room_nothing_is_found_and_with_all_the_room_everything() -> None:
    def share(cache_tokens: float) -> float:
        return hit_share(
            prefixes=10,
            prefix_tokens=1000,
            own_tokens=1000,
            cache_tokens=cache_tokens,
            replicas=4,
            routing=Routing.RANDOM,
        )

    assert share(-5.0) == share(0.0) == 0.0
    assert share(1e9) == pytest.approx(1.0)


@pytest.mark.parametrize("requests_per_prefix", [2.5, math.inf])
def test_groups_behind_one_endpoint_are_caches_behind_random(requests_per_prefix: float) -> None:
    share = partial(
        hit_share, prefix_tokens=SHARED, own_tokens=OWN, cache_tokens=150_000, requests_per_prefix=requests_per_prefix
    )
    eight = share(prefixes=100, replicas=8, routing=Routing.RANDOM)

    assert share(prefixes=100, replicas=1, groups=8, routing=Routing.PREFIX_AWARE) == eight
    assert share(prefixes=200, replicas=2, groups=8, routing=Routing.PREFIX_AWARE) == eight
    assert share(prefixes=100, replicas=2, groups=4, routing=Routing.LEAST_LOADED) == eight
    assert share(prefixes=100, replicas=8, routing=Routing.PREFIX_AWARE) > eight
