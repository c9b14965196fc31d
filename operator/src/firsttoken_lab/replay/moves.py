"""Moves of a load so far, as scenarios of what comes next, and the size that is cheapest over them. Compiled.

It knows nothing of requests or metrics: logarithms of a load, one a minute, and what a size costs at a load. Imported
only when it is asked, because compiling needs numba.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.simulation.compiled import compiled

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_MINUTES_A_DAY = 1440
_LEAST_USED, _MOST_USED = 0.7, 1.6
"""Sizes are tried from so many times the lowest load of the scenarios to so many times the highest."""


@compiled
def alike(log_load: Floats, spans: Counts, level_weight: float, hour_weight: float, ahead: int, most: int) -> Counts:
    """The minutes before each minute that were most like it, (minutes, most); -1 where there are fewer.

    Alike: in the moves of the last `spans` minutes (each divided by the root of its length, as those of a random walk
    are), in the level, and in the hour of the day. What followed for `ahead` minutes is known of each.
    """
    minutes, first = len(log_load), spans.max()
    found = np.full((minutes, most), -1)
    distances = np.empty(most)
    for now in range(first, minutes):
        count = 0
        for then in range(first, now - ahead + 1):
            distance = level_weight * (log_load[now] - log_load[then]) ** 2
            for span in spans:
                moved = log_load[now] - log_load[now - span]
                distance += (moved - log_load[then] + log_load[then - span]) ** 2 / span
            apart = abs(now - then) % _MINUTES_A_DAY
            distance += hour_weight * (min(apart, _MINUTES_A_DAY - apart) / 60.0) ** 2
            if count == most and distance >= distances[most - 1]:
                continue
            place = min(count, most - 1)
            while place > 0 and distances[place - 1] > distance:
                distances[place], found[now, place] = distances[place - 1], found[now, place - 1]
                place -= 1
            distances[place], found[now, place] = distance, then
            count = min(count + 1, most)
    return found


@compiled
def sizes_asked(
    log_load: Floats,
    requests: Floats,
    found: Counts,
    late: Floats,
    log_least: float,
    log_step: float,
    ahead: int,
    start_minutes: int,
    slot_seconds: float,
    drain_seconds: float,
    price: float,
    least: int,
) -> tuple[Counts, Counts]:
    """Replicas asked for at every minute, and those that serve in it: the cheapest over the minutes `found` alike.

    `requests`: of every minute. `late`: share by load (in steps of the logarithm from `log_least` on) and by replicas
    from `least` on. `price`: of a late request, in replica-seconds. What is asked for now is one size for all
    scenarios; from then on each goes its own cheapest way, as if it were known. Only what nothing can mend before a
    replica that is asked for now would serve is weighed by chance.
    """
    minutes, sizes, loads = len(log_load), late.shape[1], late.shape[0]
    asked, serving = np.empty(minutes, np.int64), np.empty(minutes, np.int64)
    coming = np.zeros(start_minutes, np.int64)
    ready = least
    total, cost, after = np.empty(sizes), np.empty(sizes), np.empty(sizes)
    reach = np.empty(start_minutes, np.int64)
    for now in range(minutes):
        before = ready + coming.sum()
        reach[0] = ready
        for minute in range(1, start_minutes):
            reach[minute] = reach[minute - 1] + coming[minute - 1]
        total[:] = 0.0
        scenarios = 0
        # Sizes outside of what any scenario could use are left out.
        low, high = log_load[now], log_load[now]
        for then in found[now]:
            if then < 0:
                break
            for minute in range(ahead + 1):
                load = log_load[now] + log_load[then + minute] - log_load[then]
                low, high = min(low, load), max(high, load)
        fewest = min(max(int(_LEAST_USED * np.exp(low)) - least, 0), sizes - 1)
        beyond = min(max(int(_MOST_USED * np.exp(high)) + 3 - least, fewest + 1), sizes)
        for then in found[now]:
            if then < 0 and scenarios:
                break
            scenarios += 1
            cost[:] = 0.0
            for minute in range(ahead, -1, -1):
                load = log_load[now]
                if then >= 0:
                    load += log_load[then + minute] - log_load[then]
                row = min(max(int((load - log_least) / log_step + 0.5), 0), loads - 1)
                weight = price * requests[now] * np.exp(load - log_load[now])
                # From this minute to the next: down at any time, up where a start that is not asked for now can serve.
                best = np.inf
                for size in range(fewest, beyond):
                    best = min(best + drain_seconds, cost[size])
                    after[size] = best
                if minute >= start_minutes:
                    best = np.inf
                    for size in range(beyond - 1, fewest - 1, -1):
                        best = min(best + slot_seconds * start_minutes, cost[size])
                        after[size] = min(after[size], best)
                for size in range(fewest, beyond):
                    serve = size
                    if minute < start_minutes:
                        serve = min(size, reach[minute] - least)
                    cost[size] = slot_seconds * (size + least) + weight * late[row, serve] + after[size]
            total += cost
        best, chosen = np.inf, before
        for size in range(fewest, beyond):
            own = total[size] + scenarios * drain_seconds * max(0, before - least - size)
            if own < best:
                best, chosen = own, size + least
        if chosen > before:
            coming[start_minutes - 1] += chosen - before
        left = before - chosen
        for place in range(start_minutes - 1, -1, -1):
            gone = min(max(left, 0), coming[place])
            coming[place] -= gone
            left -= gone
        ready -= max(left, 0)
        asked[now], serving[now] = chosen, ready
        ready += coming[0]
        coming[:-1] = coming[1:]
        coming[-1] = 0
    return asked, serving
