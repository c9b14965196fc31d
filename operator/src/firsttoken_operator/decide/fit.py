"""Fit of a sizing to the pods that run: one for another number of GPUs a replica says nothing of them."""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.domain import FleetSnapshot, Reason, ResourceSnapshot, Sized, Target, Unsized


def withhold_unfit(snapshot: FleetSnapshot) -> FleetSnapshot:
    """The snapshot, with the sizings withheld that are not about the pods of their targets."""
    return replace(snapshot, resources=tuple(replace(r, sized=_fitting(r)) for r in snapshot.resources))


def _fitting(resource: ResourceSnapshot) -> Sized | Unsized:
    sized, target = resource.sized, resource.target
    if not isinstance(sized, Sized) or not isinstance(target, Target):
        return sized
    wanted, found = sized.configuration.gpus_per_replica, target.gpus_per_replica
    if wanted == found:
        return sized
    # A Deployment that is rendered gets the new number with the next rendering, which does not wait for this to fit.
    is_rendered = resource.claims.is_rendered
    way_out = "the Deployment is to be updated first" if is_rendered else "set hardware.tensorParallel to what they run"
    text = f"sized for {wanted} GPUs a replica, the pods of {target.name} have {found}; {way_out}"
    return Unsized(Reason.TENSOR_PARALLEL_MISMATCH, text, withheld=sized)
