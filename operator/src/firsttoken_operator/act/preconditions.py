"""Preconditions of a write: what a live InferenceDeployment must still be for a decision to be carried out. Pure.

The watches may be seconds behind, and after an outage or a restored backup far more. A decision is bound to the uid and
the generation that it was made on; anything else is decided anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firsttoken_operator.domain import ScalingMode


def changed_since(live: Mapping[str, Any], uid: str, generation: int) -> str:
    """Name the change that forbids a write for this resource; empty: it is what was decided on."""
    metadata = live["metadata"]
    if metadata["uid"] != uid:
        return "the InferenceDeployment was deleted and recreated"
    if metadata.get("deletionTimestamp"):
        return "the InferenceDeployment is being deleted"
    if metadata["generation"] != generation:
        return f"the spec changed: generation {metadata['generation']}, decided on {generation}"
    return ""


def live_mode(live: Mapping[str, Any]) -> ScalingMode:
    """The mode as it is now. One that this version does not know forbids writing, as Paused does."""
    mode = live["spec"].get("scaling", {}).get("mode", ScalingMode.ACTIVE.value)
    return ScalingMode(mode) if mode in {known.value for known in ScalingMode} else ScalingMode.PAUSED
