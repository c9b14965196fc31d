"""A step model with what is known about it: where it comes from, which lengths were measured, how far off it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from firsttoken_sizing.engines.spec import CURRENT
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.step.model import StepModel


class Origin(StrEnum):
    """Origin of a step model."""

    PROFILES = "Profiles"
    """Fitted from the profiles at hand."""
    SHIPPED = "Shipped"
    """Fitted when firsttoken was built, from published measurements."""
    PRIOR = "Prior"
    """Physics and engine constants only: this configuration was never measured."""


@dataclass(frozen=True, slots=True)
class Range:
    """Closed interval of token counts that were measured."""

    low: float
    high: float

    def covers(self, value: float, factor: float = PARAMETERS.fit.covered_factor) -> bool:
        """Tell whether `value` is inside the interval widened by `factor` on both sides."""
        return self.low / factor <= value <= self.high * factor


@dataclass(frozen=True, slots=True)
class FittedStep:
    """A step model and how far it can be trusted.

    `median_error_percent`: absolute, of the measured requests a second, over the points that were fitted (NaN: there
    were none).
    """

    model: StepModel
    input_tokens: Range
    output_tokens: Range
    points: int
    median_error_percent: float
    source: str
    origin: Origin
    release: str = CURRENT
    """Release of the engine that it is drawn to; its defaults belong to it."""
    is_collected: bool = False
    """True where the points behind it (of physics: behind the constants) were gathered from many runs, with several
    versions and settings of the engine, which scatter more than those of one."""
    without_one: Callable[[], tuple[StepModel, ...]] = field(default=tuple, compare=False, repr=False)
    """Fits without one of the measured workloads each; with only one workload what is known without it. They are made
    when asked for; physics has none. How far they lie apart is `bands.spread_percent`."""

    @property
    def is_of_one_workload(self) -> bool:
        """True where all points behind it had the same lengths; what others would take was not seen then."""
        return all(measured.low == measured.high for measured in (self.input_tokens, self.output_tokens))

    def covers(self, input_tokens: float, output_tokens: float) -> bool:
        """Tell whether the lengths are near ones that were measured; outside, the fit is an extrapolation."""
        return self.input_tokens.covers(input_tokens) and self.output_tokens.covers(output_tokens)
