"""Tables of a run in Markdown: one row an autoscaler and number of resources, and ours over the peer's below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from at_scale.figures import AUTOSCALER, CONTROLLER_MANAGER, AutoscalerFigures, Delays, Spent

Value = float | None
Read = Callable[[AutoscalerFigures], Value]
OTHERS, MACHINE = "others", "machine"


@dataclass(frozen=True, slots=True)
class Column:
    """One figure. `compares`: ours over the peer's means something."""

    heading: str
    read: Read
    digits: int = 2
    compares: bool = True


def _delay(phase: str, name: str) -> Read:
    def read(measured: AutoscalerFigures) -> Value:
        found = getattr(measured, phase)
        delays: Delays | None = found.delays if found else None
        value: Value = getattr(delays, name) if delays else None
        return value

    return read


def _spent(phase: str, read: Callable[[Spent], Value]) -> Read:
    def of(measured: AutoscalerFigures) -> Value:
        found = getattr(measured, phase)
        if found is None:
            return None
        return read(found if isinstance(found, Spent) else found.spent)

    return of


def _core(program: str) -> Callable[[Spent], Value]:
    return lambda spent: spent.cores.get(program)


def _megabytes(program: str) -> Callable[[Spent], Value]:
    return lambda spent: spent.megabytes.get(program)


def _status_writes(spent: Spent) -> Value:
    return sum(count for what, count in spent.writes_per_minute.items() if what.endswith("/status"))


def _slowest(spent: Spent) -> Value:
    return spent.health.slowest_seconds if spent.health else None


def _refused(spent: Spent) -> Value:
    return spent.health.others_than_200 if spent.health else None


def _steps(phase: str) -> tuple[Column, ...]:
    return (
        Column("p50 s", _delay(phase, "p50")),
        Column("p90 s", _delay(phase, "p90")),
        Column("p99 s", _delay(phase, "p99")),
        Column("last s", _delay(phase, "longest")),
        Column("never", _delay(phase, "never"), 0, compares=False),
        Column("early", _delay(phase, "early"), 0, compares=False),
        Column("first scrape after s", lambda m: getattr(m, phase).scrape_seconds, compares=False),
        Column("autoscaler cores", _spent(phase, _core(AUTOSCALER)), 3),
        Column("API server cores", _spent(phase, _core("kube-apiserver")), 3),
        Column("/healthz not 200", _spent(phase, _refused), 0, compares=False),
        Column("slowest /healthz s", _spent(phase, _slowest), compares=False),
        Column("machine", _spent(phase, _core(MACHINE)), compares=False),
        Column("others", _spent(phase, _core(OTHERS)), compares=False),
    )


QUIET = (
    Column("autoscaler cores", _spent("quiet", _core(AUTOSCALER)), 3),
    Column("autoscaler MB", _spent("quiet", _megabytes(AUTOSCALER)), 0),
    Column("controller manager cores", _spent("quiet", _core(CONTROLLER_MANAGER)), 3, compares=False),
    Column("API server cores", _spent("quiet", _core("kube-apiserver")), 3),
    Column("API server MB", _spent("quiet", _megabytes("kube-apiserver")), 0),
    Column("Prometheus cores", _spent("quiet", _core("prometheus")), 3),
    Column("queries/s", _spent("quiet", lambda spent: spent.queries_per_second)),
    Column("API writes a minute", _spent("quiet", lambda spent: spent.all_writes_per_minute), 1),
    Column("of status", _spent("quiet", _status_writes), 1),
    Column("minutes", _spent("quiet", lambda spent: spent.seconds / 60), 1, compares=False),
    Column("/healthz not 200", _spent("quiet", _refused), 0, compares=False),
    Column("slowest /healthz s", _spent("quiet", _slowest), compares=False),
    Column("machine", _spent("quiet", _core(MACHINE)), compares=False),
    Column("others", _spent("quiet", _core(OTHERS)), compares=False),
)
ONBOARDING = (
    Column("created in s", lambda m: m.onboarding.created_seconds if m.onboarding else None, 1),
    Column("decided p50 s", lambda m: m.onboarding.decided.p50 if m.onboarding else None, 1),
    Column("decided last s", lambda m: m.onboarding.decided.longest if m.onboarding else None, 1),
    Column("never", lambda m: m.onboarding.decided.never if m.onboarding else None, 0, compares=False),
    Column("on a size, last s", lambda m: _sized_last(m), 1, compares=False),
    Column("autoscaler cores", _spent("onboarding", _core(AUTOSCALER)), 3),
    Column("API server cores", _spent("onboarding", _core("kube-apiserver")), 3),
    Column("/healthz not 200", _spent("onboarding", _refused), 0, compares=False),
    Column("slowest /healthz s", _spent("onboarding", _slowest), compares=False),
    Column("others", _spent("onboarding", _core(OTHERS)), compares=False),
)
RESTART = (
    Column("listening s", lambda m: m.restart.listening_seconds if m.restart else None, 1, compares=False),
    Column("first decisions s", lambda m: m.restart.decided_seconds if m.restart else None, 1, compares=False),
    Column("all sized s", lambda m: m.restart.sized_seconds if m.restart else None, 1, compares=False),
    Column("write p50 s", lambda m: m.restart.writes.p50 if m.restart else None, 1, compares=False),
    Column("last s", lambda m: m.restart.writes.longest if m.restart else None, 1, compares=False),
    Column("never", lambda m: m.restart.writes.never if m.restart else None, 0, compares=False),
    Column("lowered", lambda m: m.restart.lowered if m.restart else None, 0, compares=False),
    Column("flipped", lambda m: sum(m.restart.flipped.values()) if m.restart else None, 0, compares=False),
)
SOAK = (
    Column("ticks", lambda m: m.soak.ticks if m.soak else None, 0, compares=False),
    Column("hours of ticks", lambda m: m.soak.hours if m.soak else None, compares=False),
    Column("MB at first", lambda m: m.soak.megabytes[0][1] if m.soak else None, 0, compares=False),
    Column("MB at last", lambda m: m.soak.megabytes[-1][1] if m.soak else None, 0, compares=False),
    Column("MB an hour", lambda m: m.soak.slope_per_hour if m.soak else None, compares=False),
)
SECTIONS: tuple[tuple[str, str, tuple[Column, ...]], ...] = (
    ("step", "One step: every load x3 at one instant", _steps("step")),
    ("spread", "Spread step: every load x9 at an instant of its own", _steps("spread")),
    ("quiet", "Quiet", QUIET),
    ("onboarding", "Onboarding: all are created at once", ONBOARDING),
    ("restart", "Restart: killed, the load grows, started again", RESTART),
    ("soak", "Soak: noisy traffic, resources that come and go, fast ticks", SOAK),
)


def tables(found: Sequence[AutoscalerFigures]) -> str:
    """All tables of a run; phases that were not measured are left out."""
    parts = [_section(title, columns, [m for m in found if getattr(m, phase)]) for phase, title, columns in SECTIONS]
    return "\n".join([*filter(None, parts), *_profiles(found)])


def _section(title: str, columns: Sequence[Column], found: Sequence[AutoscalerFigures]) -> str:
    if not found:
        return ""
    rows = [(f"{measured.name}, {measured.resources:,}", *_values(measured, columns)) for measured in found]
    rows += [
        (f"{ours.name} / {peer.name}, {ours.resources:,}", *_ratios(ours, peer, columns))
        for ours, peer in pairs(found)
        if any(column.compares for column in columns)
    ]
    return _table(title, ("", *(column.heading for column in columns)), rows)


def pairs(found: Sequence[AutoscalerFigures]) -> list[tuple[AutoscalerFigures, AutoscalerFigures]]:
    """Ours and the peer of the same size."""
    return [(a, b) for a in found for b in found if a.name != b.name and a.name == "firsttoken" and _equal(a, b)]


def _equal(a: AutoscalerFigures, b: AutoscalerFigures) -> bool:
    return a.resources == b.resources


def _values(measured: AutoscalerFigures, columns: Iterable[Column]) -> list[str]:
    return [_shown(column.read(measured), column.digits) for column in columns]


def _ratios(ours: AutoscalerFigures, peer: AutoscalerFigures, columns: Iterable[Column]) -> list[str]:
    return [_shown(_ratio(column.read(ours), column.read(peer)), 2) if column.compares else "" for column in columns]


def _ratio(ours: Value, peer: Value) -> Value:
    return ours / peer if ours is not None and peer else None


def _shown(value: Value, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _profiles(found: Iterable[AutoscalerFigures]) -> list[str]:
    recorded = [(measured, phase, parts) for measured in found for phase, parts in measured.profile.items()]
    if not recorded:
        return []
    headings = ("", *recorded[0][2], "sum")
    rows = [
        (f"{measured.resources:,}, {phase}", *(_shown(v, 3) for v in parts.values()), _shown(sum(parts.values()), 3))
        for measured, phase, parts in recorded
    ]
    return [_table("CPU milliseconds of a resource and tick, by part", headings, rows)]


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    ruled = ["---", *["---:"] * (len(headings) - 1)]
    lines = (headings, ruled, *rows)
    return f"### {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _sized_last(measured: AutoscalerFigures) -> Value:
    sized = measured.onboarding.sized if measured.onboarding else None
    return sized.longest if sized else None
