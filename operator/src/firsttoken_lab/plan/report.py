"""A plan for people (tables and sentences) and for programs (JSON; the names are a public contract)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsttoken_lab.plan.cost import BaseAndBurst, Reserve
from firsttoken_lab.plan.load import SLOT_SECONDS
from firsttoken_lab.plan.members import Member
from firsttoken_lab.plan.plan import Plan, PoolPlan
from firsttoken_lab.plan.week import PoolWeek, ShortTime
from firsttoken_lab.replay.calendar import MONDAY_EPOCH_SECONDS
from firsttoken_sizing.report.cells import UNKNOWN, VERDICTS, configuration_name, number, parallelism, replicas_range

_SHOWN_TIMES = 10
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SLOTS_A_DAY = 86_400 // SLOT_SECONDS
NOTES = (
    "Every week is taken to be as this one. GPUs are those of the sizes for the load in each quarter of an hour; burst"
    " headroom, starts and replicas that die come on top.",
    "What is owned, reserved and rented is told apart in GPUs, not in replicas. GPUs on spot may be taken back at any"
    " time; no replica is counted for that.",
)


def verdict(plan: Plan) -> str:
    """One line: whether everything fits, else where it does not."""
    if plan.fits:
        open_ended = [p.name for p in plan.pools if p.week.fits is None and p.week.members]
        rest = f" ({', '.join(open_ended)}: no number of GPUs is declared)" if open_ended else ""
        return f"Everything fits in every hour of the week{rest}."
    short = [f"{p.name} is short in {_hours(p.week.short_times):g} hours of the week" for p in plan.pools
             if p.week.fits is False]  # fmt: skip
    short += [f"{m.uid} has no size that meets its SLA" for m in plan.impossible]
    return f"It does not fit: {'; '.join(short)}."


def plan_tables(plan: Plan) -> RenderableType:
    """The verdict, the deployments, the pools, and what to know of them."""
    parts: list[RenderableType] = [Text(verdict(plan)), _deployments(plan), _pools(plan)]
    return Group(*parts, *(Text(sentence) for sentence in sentences(plan)), *(Text(n, style="dim") for n in NOTES))


def sentences(plan: Plan) -> Iterable[str]:
    """Say who is short and when, what to buy, and from which share of the time on a server pays."""
    for member in plan.members:
        if member.note:
            yield f"{member.uid}: {member.note}, so it is planned in {member.pool}."
        if not member.sizing.feasible:
            yield f"{member.uid}: {member.sizing.reason}"
    for pool in plan.pools:
        week = pool.week
        said = list(_on_days(week.short_times))
        for when, short_gpus, who in said[:_SHOWN_TIMES]:
            yield f"{pool.name} is short by {short_gpus} GPUs {when}: {who}."
        if (more := len(said) - _SHOWN_TIMES) > 0:
            yield f"{pool.name}: and at {more} other times; -o json lists all."
        if week.fits and week.fits_at_all_peaks is False:
            yield (
                f"{pool.name} holds the week, but not all peaks at once: they need {week.gpus_at_all_peaks}"
                f" GPUs on {week.servers_at_all_peaks} servers."
            )
        if pool.split is not None:
            yield _split(pool.name, pool.split)
        if pool.cost is not None and pool.cost.reserve is not None and week.members:
            yield _reserve(pool.name, pool.cost.currency, pool.cost.reserve)


def plan_json(plan: Plan) -> dict[str, Any]:
    """The whole plan. Times are UTC; what is not known or declared is None."""
    return {
        "fits": plan.fits,
        "growthPercent": round(100 * (plan.growth - 1), 6),
        "weekStart": _time(0),
        "slotSeconds": SLOT_SECONDS,
        "deployments": [_member_json(m, plan) for m in plan.members],
        "pools": [_pool_json(p) for p in plan.pools],
        "assumptions": list(NOTES),
    }


def _deployments(plan: Plan) -> Table:
    grown = f", loads x {plan.growth:g}" if plan.growth != 1 else ""
    table = Table(title=f"Deployments{grown}", title_justify="left")
    for heading in ("deployment", "pool"):
        table.add_column(heading, overflow="fold")
    table.add_column("configuration")
    for heading in ("replicas", "GPUs", "mean", "short h"):
        table.add_column(heading, justify="right")
    for m in plan.members:
        if not m.sizing.feasible:
            table.add_row(m.uid, m.pool, UNKNOWN, "none", *[UNKNOWN] * 3)
            continue
        needs, week = _needs(m, plan)
        table.add_row(
            m.uid, m.pool, _configuration(m), replicas_range(m.sizing), str(needs.max()),
            number(float(needs.mean())), f"{week.short_hours(m.uid):g}",
        )  # fmt: skip
    return table


def _pools(plan: Plan) -> Table:
    table = Table(title="Pools over the week", title_justify="left")
    table.add_column("pool")
    for pool in plan.pools:
        table.add_column(pool.name, justify="right")
    weeks = [pool.week for pool in plan.pools]
    rows = (
        ("location", [w.pool.place.location or UNKNOWN for w in weeks]),
        ("GPUs there", ["any" if w.pool.gpus is None else str(w.pool.gpus) for w in weeks]),
        ("GPUs needed at most", [str(w.gpus.max()) for w in weeks]),
        ("busiest from", [_clock(w.busiest) if w.gpus.max() else UNKNOWN for w in weeks]),
        ("GPUs needed on average", [number(float(w.gpus.mean())) for w in weeks]),
        ("fits", [VERDICTS[w.fits] for w in weeks]),
        ("all peaks at once", [str(w.gpus_at_all_peaks) for w in weeks]),
        ("fits then", [VERDICTS[w.fits_at_all_peaks] for w in weeks]),
        ("servers there", [_count(w.pool.servers) for w in weeks]),
        ("servers needed", [str(w.servers) for w in weeks]),
        ("servers to buy", [_count(w.servers_to_buy) for w in weeks]),
        ("currency", [p.cost.currency if p.cost else UNKNOWN for p in plan.pools]),
        ("a year", [number(p.cost.per_year) if p.cost else UNKNOWN for p in plan.pools]),
        ("a year, the most all year", [number(p.cost.per_year_static) if p.cost else UNKNOWN for p in plan.pools]),
        ("a year, burst on spot", [number(p.cost.per_year_spot) if p.cost else UNKNOWN for p in plan.pools]),
    )
    for label, cells in rows:
        table.add_row(label, *cells)
    return table


def _configuration(member: Member) -> str:
    """The configuration without its GPU, which is its pool's."""
    key = member.sizing.configuration
    return UNKNOWN if key is None else f"{key.precision} {parallelism(key)}"


def _needs(member: Member, plan: Plan) -> tuple[Any, PoolWeek]:
    """GPUs of a member in every slot, and the week of its pool."""
    week = next(p.week for p in plan.pools if p.name == member.pool)
    return week.needs[week.members.index(member)], week


def _split(pool: str, split: BaseAndBurst) -> str:
    return (
        f"{pool}: a GPU that is busy for more than {split.break_even_percent:.0f} % of the time costs less owned"
        f" ({split.own}) than rented ({split.rented}). Cheapest: own {_servers(split)}"
        f" and rent up to {split.most_rented_gpus} GPUs, {number(split.rented_gpu_hours_per_week)} GPU-hours a week:"
        f" {number(split.per_year)} {split.currency} a year; all owned {number(split.per_year_all_own)}, all rented"
        f" {number(split.per_year_all_rented)}."
    )


def _reserve(pool: str, currency: str, reserve: Reserve) -> str:
    return (
        f"{pool}: a GPU that is busy for more than {reserve.break_even_percent:.0f} % of the time costs less reserved"
        f" than on demand. Cheapest: reserve {reserve.gpus} GPUs, the rest on demand: {number(reserve.per_year)}"
        f" {currency} a year."
    )


def _servers(split: BaseAndBurst) -> str:
    return f"{split.servers} servers ({split.base_gpus} GPUs)" if split.servers else "no server"


def _member_json(m: Member, plan: Plan) -> dict[str, Any]:
    key, feasible = m.sizing.configuration, m.sizing.feasible
    needs, week = _needs(m, plan) if feasible else (None, None)
    return {
        "namespace": m.resource.namespace,
        "name": m.resource.name,
        "pool": m.pool,
        "priority": m.resource.priority,
        "feasible": feasible,
        "reason": m.sizing.reason,
        "configuration": configuration_name(key),
        "replicas": m.sizing.replicas if feasible else None,
        "replicasLow": m.sizing.replicas_low if feasible else None,
        "replicasHigh": m.sizing.replicas_high if feasible else None,
        "gpusAtPeak": m.sizing.gpus if feasible else None,
        "gpusAtMost": None if needs is None else int(needs.max()),
        "gpusOnAverage": None if needs is None else round(float(needs.mean()), 3),
        "shortHours": None if week is None else week.short_hours(m.uid),
        "gpus": None if needs is None else needs.tolist(),
    }


def _pool_json(pool: PoolPlan) -> dict[str, Any]:
    week, split, cost = pool.week, pool.split, pool.cost
    return {
        "name": pool.name,
        "location": week.pool.place.location or None,
        "gpu": week.pool.place.gpu,
        "gpus": week.pool.gpus,
        "servers": week.pool.servers,
        "gpusPerServer": week.pool.gpus_per_server,
        "fits": week.fits,
        "gpusAtMost": int(week.gpus.max()),
        "busiest": _time(week.busiest),
        "gpusOnAverage": round(float(week.gpus.mean()), 3),
        "fitsAtAllPeaks": week.fits_at_all_peaks,
        "gpusAtAllPeaks": week.gpus_at_all_peaks,
        "serversNeeded": week.servers,
        "serversNeededAtAllPeaks": week.servers_at_all_peaks,
        "serversToBuy": week.servers_to_buy,
        "shortages": [
            {
                "start": _time(t.begins),
                "end": _time(t.ends),
                "needGPUs": t.need_gpus,
                "shortGPUs": t.short_gpus,
                "deployments": [
                    {"name": x.uid, "shortGPUs": x.gpus, "ttftMilliseconds": _milliseconds(x.ttft_seconds)}
                    for x in t.lacks
                ],
            }
            for t in week.short_times
        ],
        "declaredShortages": [
            {"start": _iso(s.begins_seconds), "end": _iso(s.ends_seconds), "needGPUs": s.need_gpus,
             "shortGPUs": s.short_gpus}
            for s in week.declared_shortages
        ],
        "cost": cost and {
            "currency": cost.currency, "perYear": round(cost.per_year, 2),
            "perYearStatic": None if cost.per_year_static is None else round(cost.per_year_static, 2),
            "perYearSpot": None if cost.per_year_spot is None else round(cost.per_year_spot, 2),
            "reserve": cost.reserve and {
                "gpus": cost.reserve.gpus,
                "breakEvenPercent": round(cost.reserve.break_even_percent, 3),
                "perYear": round(cost.reserve.per_year, 2),
            },
        },
        "baseAndBurst": split and {
            "own": split.own,
            "rented": split.rented,
            "currency": split.currency,
            "servers": split.servers,
            "baseGPUs": split.base_gpus,
            "mostRentedGPUs": split.most_rented_gpus,
            "rentedGPUHoursPerWeek": round(split.rented_gpu_hours_per_week, 3),
            "breakEvenPercent": round(split.break_even_percent, 3),
            "perYear": round(split.per_year, 2),
            "perYearAllOwn": round(split.per_year_all_own, 2),
            "perYearAllRented": round(split.per_year_all_rented, 2),
        },
    }  # fmt: skip


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)


def _who(time: ShortTime) -> str:
    return ", ".join(f"{x.uid} lacks {x.gpus} ({x.expected.removesuffix(f' for {x.uid}')})" for x in time.lacks)


def _hours(times: Sequence[ShortTime]) -> float:
    return sum(t.ends - t.begins for t in times) * SLOT_SECONDS / 3600


def _on_days(times: Iterable[ShortTime]) -> Iterable[tuple[str, int, str]]:
    """Times in which a pool is short, by how many GPUs, and who lacks them; days that are alike are said together."""
    days: dict[tuple[str, str, int, str], list[str]] = {}
    for time in times:
        begins, ends = _clock(time.begins), _clock(time.ends)
        if time.ends - time.begins >= _SLOTS_A_DAY:
            whole_week = (time.begins, time.ends) == (0, 7 * _SLOTS_A_DAY)
            span, day = ("all week" if whole_week else f"from {begins} to {ends} UTC"), ""
        else:
            (day, begin), end = begins.split(), ends.split()[1]
            span = f"from {begin} to {end} UTC"
        days.setdefault((span, "" if day else begins, time.short_gpus, _who(time)), []).append(day)
    for (span, _, gpus, who), on in days.items():
        if len(on) == len(_DAYS):
            yield f"every day {span}", gpus, who
        else:
            yield f"on {', '.join(on)} {span}" if on[0] else span, gpus, who


def _clock(slot: int) -> str:
    minutes = slot % _SLOTS_A_DAY * SLOT_SECONDS // 60
    return f"{_DAYS[slot // _SLOTS_A_DAY % 7]} {minutes // 60:02}:{minutes % 60:02}"


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _time(slot: int) -> str:
    return _iso(MONDAY_EPOCH_SECONDS + slot * SLOT_SECONDS)


def _iso(epoch_seconds: float) -> str:
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
