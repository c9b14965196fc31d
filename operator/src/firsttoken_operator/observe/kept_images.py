"""Nodes on which the image of a resource is kept, as the pods that keep it tell.

An image is there once the kubelet has made a container of it: whether that container goes on does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_operator.domain.pods import KEEPER_KIND, KEEPER_LABEL
from firsttoken_operator.observe.projections import Body, controller_of, gpus_of, is_finished


@dataclass(frozen=True, slots=True)
class _Keeper:
    resource: tuple[str, str]
    """Namespace and name of the resource."""
    node: str
    images: frozenset[str]
    """Those that are on its node, as they are declared."""


class KeptImages:
    """Pods that keep images, by uid. Not thread-safe, as the store that owns it."""

    def __init__(self) -> None:
        self._keepers: dict[str, _Keeper] = {}
        self._uids: dict[tuple[str, str], set[str]] = defaultdict(set)

    def put(self, body: Body) -> bool:
        """Take a pod; False: it keeps no image, or does so no more."""
        metadata = body["metadata"]
        self.drop(metadata["uid"])
        name = (metadata.get("labels") or {}).get(KEEPER_LABEL)
        if name is None or (owner := controller_of(body)) is None or owner.kind != KEEPER_KIND:
            return False
        if gpus_of(body.get("spec") or {}):
            return False  # NB: a pod with GPUs is charged, whatever it says that it is.
        if is_finished(body):
            return True  # Another one takes its place.
        keeper = _Keeper((metadata.get("namespace", ""), name), *_place(body))
        self._keepers[metadata["uid"]] = keeper
        self._uids[keeper.resource].add(metadata["uid"])
        return True

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        keeper = self._keepers.pop(uid, None)
        if keeper is not None:
            self._uids[keeper.resource].discard(uid)
            if not self._uids[keeper.resource]:
                del self._uids[keeper.resource]

    def are_everywhere(self, namespace: str, name: str, images: Iterable[str], nodes: Iterable[str]) -> bool:
        """Tell whether all of these images of a resource are on every node that shall have them, and on `nodes`.

        False where none is kept, and where no image is known.
        """
        keepers = [self._keepers[uid] for uid in self._uids.get((namespace, name), ())]
        wanted, kept = frozenset(images), {keeper.node for keeper in keepers}
        return bool(keepers and wanted) and kept >= set(nodes) and all(wanted <= keeper.images for keeper in keepers)


def _place(body: Body) -> tuple[str, frozenset[str]]:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if body["metadata"].get("deletionTimestamp"):
        # NB: what it keeps may be collected from now on.
        return spec.get("nodeName") or "", frozenset()
    made = {each.get("name") for each in status.get("containerStatuses") or () if each.get("imageID")}
    images = (each.get("image", "") for each in spec.get("containers") or () if each.get("name") in made)
    return spec.get("nodeName") or "", frozenset(images)
