"""Weights that a server loads, and whether they are in the precision that was sized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firsttoken_sizing.catalog import Model
from firsttoken_sizing.errors import InvalidInput

_SIXTEEN_BITS = ("BF16", "FP16")


@dataclass(frozen=True, slots=True)
class Weights:
    """A checkpoint. `source`: its name on Hugging Face, or a path in the model cache."""

    source: str
    precision: str
    published: str
    """Precision that the checkpoint has; the server converts it where that is not `precision`."""

    def conversion(self, server: str, can: Mapping[str, str]) -> str:
        """Name that the server has for the conversion while it loads; empty: there is nothing to convert.

        `can`: its names by precision. Raises `InvalidInput` for a conversion that it does not know.
        """
        if self.precision == self.published or {self.precision, self.published} <= {*_SIXTEEN_BITS}:
            return ""
        if self.published in _SIXTEEN_BITS and self.precision in can:
            return can[self.precision]
        raise InvalidInput(
            "runtime.checkpoint",
            f"missing: {self.source} is published in {self.published}, of which {server} makes no {self.precision}",
            f"name a checkpoint in {self.precision}, or set model.precision: {self.published}",
        )


def weights_of(model: Model, precision: str, checkpoint: str | None) -> Weights:
    """Find the weights: a declared checkpoint is in the precision that was sized, the model's own as published."""
    if checkpoint is not None:
        return Weights(checkpoint, precision, precision)
    published = tuple(model.published_precisions)
    sixteen = [each for each in published if each in _SIXTEEN_BITS]
    own = (sixteen or [*published, precision])[0]
    return Weights(model.name, precision, own)
