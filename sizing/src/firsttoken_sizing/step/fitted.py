"""A step model with what is known about it: where it comes from, which lengths were measured, how far off it was."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from firsttoken_sizing.step.model import StepModel


class Origin(StrEnum):
    """Where a step model comes from."""

    PROFILES = "Profiles"
    """Fitted from the profiles at hand."""
    SHIPPED = "Shipped"
    """Fitted when firsttoken was built, from published measurements."""
    PRIOR = "Prior"
    """Physics and engine constants only: nobody measured this configuration."""


@dataclass(frozen=True, slots=True)
class Range:
    """Closed interval of token counts that were measured."""

    low: float
    high: float

    def covers(self, value: float, factor: float = 1.5) -> bool:
        """Whether `value` is inside the interval widened by `factor` on both sides."""
        return self.low / factor <= value <= self.high * factor


@dataclass(frozen=True, slots=True)
class FittedStep:
    """A step model and how far it can be trusted.

    Errors are absolute, in percent of the measured requests a second: `median_error_percent` over the points that were
    fitted (NaN: there were none), `band_percent` the 90th percentile (of points left out where the fit was
    cross-validated, else of the fitted ones, and no narrower than their number allows).
    """

    model: StepModel
    input_tokens: Range
    output_tokens: Range
    points: int
    median_error_percent: float
    band_percent: float
    source: str
    origin: Origin

    def covers(self, input_tokens: float, output_tokens: float) -> bool:
        """Whether the lengths are near ones that were measured; outside, the fit is an extrapolation."""
        return self.input_tokens.covers(input_tokens) and self.output_tokens.covers(output_tokens)
