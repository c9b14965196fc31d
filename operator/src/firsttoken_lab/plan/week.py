"""One pool over the week: what its deployments need in every slot, what `decide` would give them, and who gets less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.plan.load import SLOT_SECONDS, SLOTS, Floats
from firsttoken_lab.plan.members import Member
from firsttoken_lab.plan.pools import PlannedPool
from firsttoken_lab.replay.calendar import MONDAY_EPOCH_SECONDS
from firsttoken_operator.decide import Peak, Shortage, at_load, peaks, shortages
from firsttoken_operator.domain import PoolSnapshot, ResourceSnapshot, Sized

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lack:
    """GPUs that one deployment lacks in a time in which its pool is short, at most, and what to expect of it then."""

    uid: str
    gpus: int
    ttft_seconds: float | None
    expected: str


@dataclass(frozen=True, slots=True)
class ShortTime:
    """A time of the week in which deployments get less than they need, in slots, and the most that they need in it."""

    begins: int
    ends: int
    need_gpus: int
    short_gpus: int
    lacks: tuple[Lack, ...]


@dataclass(frozen=True)
class PoolWeek:
    """`needs`: GPUs of each deployment in every slot, in the order of `members`, of shape (members, SLOTS)."""

    pool: PlannedPool
    members: tuple[Member, ...]
    needs: Whole
    short_times: tuple[ShortTime, ...]
    at_all_peaks: tuple[Peak, ...]
    """Shares of the pool where all of them have their highest load of the week, or their declared peak, at once."""
    declared_shortages: tuple[Shortage, ...]
    """Times in which declared peaks and schedules at once need more than the pool has, as its status would show."""
    servers: int
    """Fewest whole servers that hold what is needed in every slot."""
    servers_at_all_peaks: int

    @cached_property
    def gpus(self) -> Whole:
        """GPUs that all of them need in each slot, of shape (SLOTS,)."""
        total: Whole = self.needs.sum(axis=0)
        return total

    @property
    def busiest(self) -> int:
        """The first slot with the highest need."""
        return int(self.gpus.argmax())

    @property
    def gpus_at_all_peaks(self) -> int:
        """GPUs of all highest loads at once."""
        return sum(peak.wanted_gpus for peak in self.at_all_peaks)

    @property
    def fits(self) -> bool | None:
        """Tell whether everything gets what it needs in the whole week; None: that depends on what there will be."""
        return False if self.short_times else None if self.pool.gpus is None else True

    @property
    def fits_at_all_peaks(self) -> bool | None:
        """The same where all highest loads come at once."""
        return False if _lacking(self.at_all_peaks) else None if self.pool.gpus is None else True

    @property
    def servers_to_buy(self) -> int | None:
        """Servers that the week needs on top of those that are there; None: they are rented."""
        return max(0, self.servers - (self.pool.servers or 0)) if self.pool.on_prem else None

    def short_hours(self, uid: str) -> float:
        """Hours of the week in which one deployment gets less than it needs."""
        return sum(t.ends - t.begins for t in self.short_times if uid in {x.uid for x in t.lacks}) * SLOT_SECONDS / 3600


def pool_week(pool: PlannedPool, members: Sequence[Member], loads: Mapping[str, Floats | None]) -> PoolWeek:
    """Share the pool in every slot of the week. `loads`: rates of each deployment by uid, requests a second."""
    known: dict[tuple[int, ...], tuple[Peak, ...]] = {}
    slots: list[tuple[Peak, ...]] = []
    for slot in range(SLOTS):
        resources = [at_load(member.resource, _rate(loads[member.uid], slot)) for member in members]
        key = tuple(r.sized.replicas_for_declared_peak for r in resources if isinstance(r.sized, Sized))
        # NB: what to expect of those that get less depends on the very rate, what all of them get on their sizes alone.
        if key not in known or _lacking(known[key]):
            known[key] = tuple(peaks(pool.shared, resources))
        slots.append(known[key])
    declared = [member.resource for member in members]
    at_all_peaks = tuple(peaks(pool.shared, [at_load(m.resource, _highest(m, loads[m.uid])) for m in members]))
    needs = np.array([[p.wanted_gpus for p in slot] for slot in slots], np.int64).reshape(SLOTS, len(members)).T
    epoch, week_seconds = MONDAY_EPOCH_SECONDS, float(SLOTS * SLOT_SECONDS)
    return PoolWeek(
        pool=pool,
        members=tuple(members),
        needs=needs,
        short_times=tuple(_short_times(slots)),
        at_all_peaks=at_all_peaks,
        declared_shortages=shortages(pool.snapshot, declared, epoch, week_seconds),
        servers=servers_for(pool, list(known.values())),
        servers_at_all_peaks=servers_for(pool, [at_all_peaks]),
    )


def servers_for(pool: PlannedPool, states: Sequence[Sequence[Peak]]) -> int:
    """Fewest whole servers that hold each of several states, by the packing of the ledger."""
    servers = 0
    for state in sorted(states, key=lambda s: sum(p.wanted_gpus for p in s), reverse=True):
        wanted = [peak.resource for peak in state]
        servers = max(servers, -(-sum(p.wanted_gpus for p in state) // pool.gpus_per_server))
        while not _holds(pool.with_servers(servers), wanted):
            servers += 1
    return servers


def _holds(pool: PoolSnapshot, wanted: Sequence[ResourceSnapshot]) -> bool:
    return not _lacking(peaks(pool, wanted))


def _rate(rates: Floats | None, slot: int) -> float | None:
    return None if rates is None else float(rates[slot])


def _highest(member: Member, rates: Floats | None) -> float | None:
    declared = member.sizing.peak_requests_per_second
    return None if rates is None else max(declared, float(rates.max()))


def _short_times(slots: Sequence[tuple[Peak, ...]]) -> list[ShortTime]:
    found: list[ShortTime] = []
    for slot, state in enumerate(slots):
        lacking = _lacking(state)
        if not lacking:
            continue
        here = ShortTime(
            slot, slot + 1, sum(p.wanted_gpus for p in state), sum(map(_lacking_gpus, lacking)),
            tuple(Lack(p.resource.uid, _lacking_gpus(p), p.ttft_seconds, p.expected) for p in lacking),
        )  # fmt: skip
        if found and found[-1].ends == slot:
            found.append(_joined(found.pop(), here))
        else:
            found.append(here)
    return found


def _joined(before: ShortTime, after: ShortTime) -> ShortTime:
    worst: dict[str, Lack] = {}
    for lack in (*before.lacks, *after.lacks):
        known = worst.get(lack.uid)
        if known is None or (lack.gpus, lack.ttft_seconds or 0.0) > (known.gpus, known.ttft_seconds or 0.0):
            worst[lack.uid] = lack
    return ShortTime(
        before.begins, after.ends, max(before.need_gpus, after.need_gpus), max(before.short_gpus, after.short_gpus),
        tuple(worst.values()),
    )  # fmt: skip


def _lacking(state: Sequence[Peak]) -> list[Peak]:
    return [peak for peak in state if peak.granted < peak.wanted]


def _lacking_gpus(peak: Peak) -> int:
    return (peak.wanted - peak.granted) * peak.sized.configuration.gpus_per_replica
