"""Learned capacity: live TTFT corrects what one replica carries, never the replica count directly.

The SLA allows a share of late first tokens; the capacity is right where about that share is late on full replicas. So
full replicas with hardly anybody late carry more than was sized, and full replicas with too many late carry less.
The factor on the sized capacity follows that by small steps (stochastic approximation; Robbins and Monro 1951), faster
in the first hours than later. What keeps it honest:

* Only replicas that work near their capacity say how large it is: a quiet week teaches nothing.
* Some prompts are late at any load, because their own prefill takes too long. No replica shortens that, so what is late
  on nearly idle replicas does not count as a miss, nor does what prompts longer than declared foretell.
* A bad hour tightens first, and is given back by a good one; only what goes on is learned.
* One window moves the factor by a tenth at most, the first of a row by a fiftieth, and it stays within [0.5, 2]; at a
  bound it is `Pegged`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_operator.domain import Metrics, Sized, Target, Tick, TtftInterval, Value
from firsttoken_operator.estimate.demand import Demand
from firsttoken_operator.estimate.memory import (
    DOUBTED_TICKS,
    IDLE_FILL,
    MAXIMUM_FACTOR,
    MINIMUM_FACTOR,
    TAIL_REQUESTS,
    Calibration,
    ResourceMemory,
)
from firsttoken_operator.estimate.settled import is_settled
from firsttoken_sizing.performance.table import STATISTICS
from firsttoken_sizing.workload import Sla

BUDGET_SHARE = 0.38
"""Of the late requests that the SLA allows: as many are aimed at."""
LEAST_SPENDING, MOST_SPENDING = 0.25, 3.0
"""Of the budget: how far full replicas may be below or above it while the day as a whole has spent more or less."""
SPENDING_GAIN = 5.0
"""How much is saved or spent on full replicas for what the day spent too much or too little, both in budgets."""
RESERVE_A_BUDGET, MOST_RESERVE = 0.05, 0.3
"""Share of the capacity that is left free for each budget that was spent beyond the first, and at most."""
OVERSPENT = 3.0
"""Budgets spent from which on a size is kept for longer."""
MOST_PATIENCE = 12.0
"""Times the stabilization window: how long a size is kept at most where the budget is overspent."""
BELIEVED_REQUESTS = 1000.0
"""Requests of which it is believed beforehand that they kept to the budget: a few late ones are no overspent day."""
BUDGET_SECONDS = 43200.0
"""Time constant with which what was spent is forgotten."""
LEAST_BUDGET_SHARE = 0.5
"""The same where most of what is allowed is late anyway."""
SLOWEST_GAIN_PER_HOUR, FASTEST_GAIN_PER_HOUR = 0.15, 0.6
"""By how much (logarithm) the factor grows in an hour of full replicas without anybody late: later on, and at first."""
LARGEST_STEP_A_WINDOW, LARGEST_LATER_STEP = 0.02, 0.1
"""Most by which one rate window lowers the factor (logarithm): the first ones of a row, and the later ones."""
PATIENT_WINDOWS = 3
"""Windows in a row with too many late requests before they are believed: most such are load that rises faster than it
is measured, of which the capacity knows nothing."""
BUSY_FILL, FULL_FILL, OVERLOADED_FILL = 0.75, 0.95, 1.1
"""Load as a share of the capacity: between the first two lessons gain weight, and above the last replicas are too few,
which demand asks for and which says nothing of the model."""
GROW_FILL, GROWN_FILL = 0.95, 1.05
"""The same for a capacity beyond what was sized or learned: a fleet has to be full to show it. Late first tokens do not
warn before a replica is saturated, so one that is less than full and has none may be just below."""
CLEAR_MISSES = 2.0
"""Late requests, in multiples of what the SLA allows, that say even of half empty replicas that they carry less."""
LONGEST_WAIT_SECONDS = 900.0
"""How long a lesson of the tail waits for the speed of the replicas."""
FLOOR_REQUESTS, FLOOR_SECONDS, DOUBTED_FLOOR_REQUESTS = 5000.0, 14400.0, 500.0
"""What is late at any load is an average over so many requests on idle replicas and at least so long; beforehand it is
believed of so many requests that none was late."""
MOST_DOUBT = 0.5
"""Share of requests that may have been late up to which an estimate between certain and possible is believed."""
MOST_BALANCE = 2.0
"""Most that a window with fewer late requests than on idle replicas counts, in windows with none too many."""
MOST_TIGHTENED = 0.75
"""Least to which the learned capacity is tightened before less is learned."""
SLOW_LEARNING = 0.2
"""Share of a lesson that is learned beyond that, later on; at first all of it is."""
HELD_UP = 1.0
"""Requests that a prompt makes late which is late by itself, on replicas that are full: those behind it."""
MOST_EXCUSED = 0.5
"""Late share that the length of prompts excuses at most."""
_SECONDS_AN_HOUR = 3600.0


def learn(
    memory: ResourceMemory, tick: Tick, sized: Sized, target: Target, metrics: Metrics, load: Demand
) -> ResourceMemory:
    """Memory with what this tick's TTFT teaches about the capacity."""
    known = _with_less_spent(memory.calibration, tick)
    missed_since, memory = memory.missed_since_seconds, replace(memory, calibration=known, missed_since_seconds=None)
    ttft, inside = metrics.ttft, _share_inside(sized.sla)
    late = late_share(ttft)
    if ttft is None or late is None or inside is None or not metrics.may_lower:
        return memory
    requests = ttft.requests * tick.interval_seconds / metrics.window_seconds
    known = _with_spent(known, late, requests)
    memory = replace(memory, calibration=known)
    if not is_settled(memory, tick, target, metrics) or not _speed_is_known(memory, tick):
        return memory
    # What the engines say, not a gateway: both sides of a comparison have to be of the same requests.
    arriving = metrics.arrivals.value * load.work_ratio if isinstance(metrics.arrivals, Value) else load.arriving_load
    sized_load = arriving / (target.ready * sized.table.capacity_of_one_among(target.ready))
    fill = sized_load / known.factor
    queued = memory.queued_seconds
    is_quiet = queued is None or tick.clock_seconds - queued > 2 * metrics.window_seconds
    if sized_load <= IDLE_FILL and fill <= BUSY_FILL and is_quiet:
        return replace(memory, calibration=_with_floor(known, late, requests, tick))
    # What is spent while a fleet grows is saved on full replicas, and the other way round.
    spending = 1 + SPENDING_GAIN * (1 - spent_budgets(known, sized.sla))
    spending = min(max(spending, LEAST_SPENDING), MOST_SPENDING)
    budget = _aim(known, 1 - inside) * spending
    excess = late - late_on_any_fleet(known, metrics, sized)
    balance = min(1 - excess / budget, MOST_BALANCE)
    if late - known.floor_share > 1 - inside:
        # What the SLA forbids says of no replica that it carries more, whatever the prompts foretell.
        balance = min(balance, 0.0)
    if balance < 0:
        missed_since = tick.clock_seconds if missed_since is None else missed_since
        memory = replace(memory, missed_since_seconds=missed_since)
    grows = balance > 0 and known.tightened >= 1 and known.tail_factor >= 1
    start, full = (GROW_FILL, GROWN_FILL) if grows else (BUSY_FILL, FULL_FILL)
    is_clear = excess > CLEAR_MISSES * (1 - inside)
    weight = 1.0 if is_clear else min(max((fill - start) / (full - start), 0.0), 1.0)
    if weight == 0 or fill > OVERLOADED_FILL:
        return memory
    hours = tick.interval_seconds / _SECONDS_AN_HOUR
    gain = max(SLOWEST_GAIN_PER_HOUR, FASTEST_GAIN_PER_HOUR / (1 + known.hours))
    gain *= max(spending, 1.0) if balance > 0 else 1.0
    since = memory.missed_since_seconds
    windows = 0.0 if since is None else (tick.clock_seconds - since) / metrics.window_seconds
    largest = LARGEST_STEP_A_WINDOW if windows < PATIENT_WINDOWS else LARGEST_LATER_STEP
    step = max(gain * hours * weight * balance, -largest * tick.interval_seconds / metrics.window_seconds)
    learned = _with_step(known, step, most_factor(sized) * max(known.speed, 1.0))
    return replace(memory, calibration=replace(learned, hours=known.hours + weight * hours))


def _with_step(known: Calibration, step: float, most: float) -> Calibration:
    """The tail after one lesson (logarithm): what is tightened for now moves freely, what was learned only beyond it.

    An hour of jumps is no reason to believe for a day that replicas carry half, nor is a quiet one that they carry
    half as much again: the next jump then finds no room at all.
    """
    tightened = min(max(known.tightened * math.exp(step), MOST_TIGHTENED), 1.0)
    beyond = step - math.log(tightened / known.tightened)
    learning = max(SLOW_LEARNING, 1 / (1 + known.hours))
    beside, before = known.speed * tightened, known.tail_factor
    # NB: replicas so slow that they are below the least as they are must not be taken for better ones by a bad lesson.
    least = min(before, MINIMUM_FACTOR / beside)
    tail = min(max(before * math.exp(learning * beyond), least), most / beside)
    return replace(known, tightened=tightened, tail_factor=tail)


def late_on_any_fleet(known: Calibration, metrics: Metrics, sized: Sized) -> float:
    """Late share, 0..1, that more replicas would not lower: what idle ones show, or what longer prompts foretell.

    Only what is beyond the declared length counts: there the sizing says that the SLA can be kept.
    """
    limit, work, prompt = sized.sla.time_to_first_token, sized.table.work, metrics.input_tokens
    if limit is None or work is None or not isinstance(prompt, Value):
        return known.floor_share
    seconds = known.speed * limit.milliseconds / 1000
    alone = work.share_longer_than(seconds, prompt.value) - work.share_longer_than(seconds, work.input_tokens)
    return max(known.floor_share, min((1 + HELD_UP) * alone, MOST_EXCUSED))


def most_factor(sized: Sized) -> float:
    """Largest tail factor that may be learned: live ITL and E2E are not observed, so the model must allow it."""
    sla, table = sized.sla, sized.table
    others = ((sla.inter_token_latency, table.itl), (sla.end_to_end, table.end_to_end))
    most = MAXIMUM_FACTOR
    for limit, columns in others:
        if limit is not None:
            # NB: not known at this percentile reads as outside: the model then allows no more than was sized.
            inside = table.rates[columns[:, STATISTICS.index(limit.percentile.key)] <= limit.milliseconds]
            most = min(most, max(1.0, float(inside.max(initial=0.0)) / table.capacity_requests_per_second))
    return most


def _share_inside(sla: Sla) -> float | None:
    """Share of the requests that must be inside the TTFT limit; None where there is none on a percentile."""
    return sla.time_to_first_token.percentile.share if sla.time_to_first_token else None


def late_share(ttft: TtftInterval | None) -> float | None:
    """Late first tokens of the window, 0..1; None where this window says nothing reliable about them.

    Where the limit lies in the bucket of most requests the histogram cannot tell: then only what is certain counts.
    """
    if ttft is None or ttft.late is None or ttft.requests < TAIL_REQUESTS:
        return None
    return ttft.late.estimate if ttft.late.high <= MOST_DOUBT else ttft.late.low


def _speed_is_known(memory: ResourceMemory, tick: Tick) -> bool:
    """Whether the replicas' speed was measured, or could not be for long: else its error would count twice."""
    since = memory.healthy_since_seconds
    waited = since is not None and tick.clock_seconds - since >= LONGEST_WAIT_SECONDS
    return waited or memory.calibration.speed_ticks >= DOUBTED_TICKS


def _with_floor(known: Calibration, late: float, requests: float, tick: Tick) -> Calibration:
    """The late share of idle replicas: of `FLOOR_REQUESTS` or more, over hours, and none to begin with.

    One bad minute of a quiet night must not make late requests acceptable for a day.
    """
    seen = min(known.floor_requests + requests, FLOOR_REQUESTS)
    gain = min(requests / (seen + DOUBTED_FLOOR_REQUESTS), tick.interval_seconds / FLOOR_SECONDS)
    return replace(known, floor_share=known.floor_share + gain * (late - known.floor_share), floor_requests=seen)


def _with_less_spent(known: Calibration, tick: Tick) -> Calibration:
    """What was spent fades with time, whether or not anything is judged."""
    kept = math.exp(-tick.interval_seconds / BUDGET_SECONDS)
    return replace(known, late_requests=kept * known.late_requests, judged_requests=kept * known.judged_requests)


def _with_spent(known: Calibration, late: float, requests: float) -> Calibration:
    # NB: not cut off at 0: chance must not count one way only.
    excess = (late - known.floor_share) * requests
    return replace(known, late_requests=known.late_requests + excess, judged_requests=known.judged_requests + requests)


def spent_budgets(known: Calibration, sla: Sla) -> float:
    """Late requests of about the last day as a multiple of those aimed at; near 1 while few were counted."""
    inside = _share_inside(sla)
    if inside is None:
        return 1.0
    aim = _aim(known, 1 - inside)
    late = max(known.late_requests, 0.0)
    return (late + aim * BELIEVED_REQUESTS) / (known.judged_requests + BELIEVED_REQUESTS) / aim


def with_spent_budgets(budgets: float, judged_requests: float, sla: Sla) -> Calibration:
    """A calibration of which `spent_budgets` says `budgets` (1 or more), of so many judged requests."""
    inside = _share_inside(sla)
    if inside is None:
        return Calibration()
    late = _aim(Calibration(), 1 - inside) * (budgets * (judged_requests + BELIEVED_REQUESTS) - BELIEVED_REQUESTS)
    return Calibration(late_requests=late, judged_requests=judged_requests)


def patience(known: Calibration, sla: Sla) -> float:
    """How many stabilization windows a size is kept: more where far too many requests were late."""
    return min(max(spent_budgets(known, sla) / OVERSPENT, 1.0), MOST_PATIENCE)


def reserve(known: Calibration, sla: Sla) -> float:
    """Share of the learned capacity to fill, 0..1: less where the day has spent too much, whatever it went on.

    Load that jumps makes requests late before anything can start. What is left free then is all that helps.
    """
    return max(1 - RESERVE_A_BUDGET * max(spent_budgets(known, sla) - 1, 0.0), 1 - MOST_RESERVE)


def _aim(known: Calibration, allowed_share: float) -> float:
    """Late share to aim at, 0..1."""
    return BUDGET_SHARE * max(allowed_share - known.floor_share, LEAST_BUDGET_SHARE * allowed_share)
