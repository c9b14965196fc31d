"""The picture of the README: GPU-hours of every policy over a fleet that knows the future, and who keeps the SLA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

NAMES = {
    "firsttoken": "firsttoken",
    "hpa": "HPA",
    "keda": "KEDA",
    "knative": "Knative",
    "llm-d": "llm-d",
    "dynamo": "Dynamo planner",
    "static-peak": "static, for the peak",
}
"""Policies that are drawn, and their names there; `static-p95` and the clairvoyant are in the table."""
ASKED_PERCENT = 99.0
_LEFT, _TOP, _ROW, _WIDTH = 190, 92, 34, 800
_PIXELS_A_PERCENT = 3.4


@dataclass(frozen=True, slots=True)
class Bar:
    """One policy: GPU-hours above those of the clairvoyant, and requests inside the SLA, both in percent."""

    policy: str
    over_percent: float
    inside_percent: float


def bars(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Bar]:
    """The bars of the table of means over the weeks, the fewest GPU-hours first."""
    over, inside = heading.index("over clairvoyant %"), heading.index("weeks: inside SLA %")
    drawable = [row for row in rows if row[0] in NAMES and "-" not in (row[over], row[inside])]
    found = [Bar(row[0], float(row[over]), float(row[inside])) for row in drawable]
    return sorted(found, key=lambda bar: bar.over_percent)


def opened(
    title: str, description: str, width: int, height: int, font_pixels: int, styles: Iterable[str]
) -> Iterator[str]:
    """Begin a picture as SVG: its names for those who cannot see it, its styles and its ground."""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="title desc">'
    )
    yield f'  <title id="title">{escape(title)}</title>'
    yield f'  <desc id="desc">{escape(description)}</desc>'
    yield "  <style>"
    yield (
        '    text { font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; fill: #0f172a;'
        f" font-size: {font_pixels}px; }}"
    )
    yield from (f"    {style}" for style in styles)
    yield "  </style>"
    yield f'  <rect width="{width}" height="{height}" rx="10" fill="#f8fafc"/>'


def drawn(found: Sequence[Bar]) -> str:
    """The picture as SVG. What misses the SLA is pale, so that it does not look like a saving."""
    height = _TOP + _ROW * len(found) + 44
    styles = (
        ".head { font-size: 17px; font-weight: 700; }",
        ".note { font-size: 12px; fill: #475569; }",
        ".ours { fill: #2563eb; } .kept { fill: #94a3b8; } .missed { fill: #e2e8f0; stroke: #94a3b8; }",
    )
    lines = [
        *opened("GPU-hours of scaling policies on three recorded weeks", _said(found), _WIDTH, height, 14, styles),
        '  <text class="head" x="24" y="34">GPU-hours above a fleet that knows the future</text>',
        '  <text class="note" x="24" y="56">Mean of three recorded weeks; asked: the first token within 2 s for 99 %'
        " of the requests.</text>",
        '  <text class="note" x="24" y="74">firsttoken as it ships; every other policy at the tuning that was best in'
        " hindsight.</text>",
    ]
    for index, bar in enumerate(found):
        y = _TOP + _ROW * index
        kept = bar.inside_percent >= ASKED_PERCENT
        style = "ours" if bar.policy == "firsttoken" else "kept" if kept else "missed"
        width = round(_PIXELS_A_PERCENT * bar.over_percent, 1)
        weight = ' font-weight="700"' if style == "ours" else ""
        lines += [
            f'  <text x="{_LEFT - 12}" y="{y + 21}" text-anchor="end"{weight}>{escape(NAMES[bar.policy])}</text>',
            f'  <rect class="{style}" x="{_LEFT}" y="{y + 5}" width="{width}" height="22" rx="3"/>',
            f'  <text x="{_LEFT + width + 8}" y="{y + 21}"{weight}>{_label(bar)}</text>',
        ]
    lines += [
        f'  <text class="note" x="24" y="{height - 18}">In brackets: requests inside the SLA; pale bars miss it.'
        "</text>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _label(bar: Bar) -> str:
    return f"+{bar.over_percent:.0f} % ({bar.inside_percent:.1f} %)"


def _said(found: Sequence[Bar]) -> str:
    return "; ".join(f"{NAMES[bar.policy]} {_label(bar)}" for bar in found)
