"""Share of the reusable prompts that a replica finds in its prefix cache, by the size of the cache and by the router.

Prompts begin like earlier ones. Each beginning is that of r requests before no more come (geometric, mean r: the turns
of a conversation), so a share `q = 1 - 1/r` of all requests begins like an earlier one. M are in use, between the
first request and the last of each, all equally often: so `K = M / q` requests lie between two of the same beginning
(Little's law). An engine keeps the KV cache of what it computed until its room is needed, the least recently used
first. In the time of n requests at one replica

    K * p * (1 - e^(-n/K)) + n * u

tokens are touched: p that a request shares with earlier ones, and u that it does not, the rest of its prompt and its
answer. What fills the cache is its characteristic time (Che, Tung and Wang, IEEE JSAC 20, 2002), and a beginning is
there where its last request came within it: `1 - e^(-n/K)`.

A router that knows prefixes leaves a replica M/N of them. Any other sends them everywhere, and so does a replica of
several groups of attention, each with a cache of its own behind one endpoint: N then counts caches. Of the later
requests of a beginning then `s = (1/N) / (1 - q*(1 - 1/N))` come to a cache where an earlier one was, and there lie
`K / (N * (1 - q*(1 - 1/N)))` requests between; of p only `s * p` is shared.

Not modeled: beginnings that are used more often than others, and conversations that grow; both find more.
"""

from __future__ import annotations

import math

from firsttoken_sizing.workload import Routing

_HALVINGS = 60


def hit_share(
    *,
    prefixes: float,
    prefix_tokens: float,
    own_tokens: float,
    cache_tokens: float,
    replicas: int,
    routing: Routing,
    groups: int = 1,
    requests_per_prefix: float = math.inf,
) -> float:
    """Share (0..1) of what prompts share with earlier ones that is in the cache of the replica they are sent to.

    `prefixes` beginnings that come again are in use at a time; a request shares `prefix_tokens` with earlier ones, and
    adds `own_tokens` (means over all requests). `cache_tokens`: room of one of `groups` in each of `replicas`, beside
    what its running requests hold. `requests_per_prefix` (above 1): how many requests begin alike before no more come.
    """
    again = 1 - 1 / requests_per_prefix
    room = max(0.0, cache_tokens)
    # A router aims at a replica, and at none of the groups behind its endpoint.
    aimed, blind = (replicas, groups) if routing is Routing.PREFIX_AWARE else (1, replicas * groups)
    prefixes = max(1.0, prefixes / aimed)
    # Requests of a beginning from one here to the next one here, or to the last of all.
    until_here = 1 / (1 - again * (1 - 1 / blind))
    here = until_here / blind
    shared = here * prefix_tokens
    resident = _resident_share(prefixes / again * here, shared, own_tokens + prefix_tokens - shared, room)
    # NB: `here` is 1 but for rounding where every later request comes to a cache that has seen its beginning.
    return min(1.0, here * resident)


def _resident_share(between: float, prefix_tokens: float, own_tokens: float, cache_tokens: float) -> float:
    """Share of requests whose beginning came within the characteristic time of a cache of so many tokens."""

    def touched(share: float) -> float:
        return between * (prefix_tokens * share - own_tokens * math.log1p(-share))

    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # NB: a share of 1 takes an endless time, in which own tokens fill any cache.
        if middle < 1 and touched(middle) <= cache_tokens:
            low = middle
        else:
            high = middle
    return low
