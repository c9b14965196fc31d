"""GPUs that a DRA driver publishes and a scheduler allocates: beside `allocatable` of nodes, and by claims of pods.

A ResourceSlice lists devices of a node. A ResourceClaim asks for some of a DeviceClass and holds them while a pod
lives; a ResourceClaimTemplate is what each new pod claims. Counted are whole GPUs. A class says in an expression which
devices are its own, so an administrator names the classes of whole GPUs.

| what | counted as |
|---|---|
| a device of the driver, of type `gpu`, in the newest generation of a pool all of whose slices are there | one GPU |
| the same where it may be partitioned (it consumes counters), or is tainted | none: a pod may not get all of it |
| a claim of 2 devices of such a class | 2 GPUs, allocated or not |
| a claim of all of them | as many as it was given; before that, as many as one node has at most |
| a claim of the first that is there of several | the alternative with the most |
| a claim with admin access | none |
| a claim of another class | the counted GPUs that it was given |
| a claim that pods name, and share | its GPUs once: the first of the pods that hold it has them |
| the same in a pod template | none: one more replica takes no more |

Sources: Kubernetes 1.36, `resource.k8s.io/v1` (`types.go`: a scheduler takes no device of a pool that is incomplete);
NVIDIA's driver for GPUs (`deviceinfo.go` of k8s-dra-driver-gpu: `type`, `productName`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from firsttoken_operator.observe.projections import Body, ClaimName, count

DRIVER = "gpu.nvidia.com"
WHOLE = "gpu"
"""Value of a device's attribute `type` that is neither a partition nor passed through to a virtual machine."""
KEEPING_AWAY = frozenset({"NoSchedule", "NoExecute"})
"""Effects of a device's taint that keep claims away."""


@dataclass(frozen=True, slots=True)
class Published:
    """Whole GPUs of one node. `product`: name of their type; empty: they are of several, or do not say."""

    gpus: int
    product: str


class _DevicePool(NamedTuple):
    name: str
    generation: int
    slices: int


@dataclass(frozen=True, slots=True)
class _Slice:
    pool: _DevicePool
    node: str
    products: Mapping[str, str]
    """Products of the whole GPUs, by the name of the device."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """Devices that are asked for. `of_all`: further ones are all that one node has, and not given yet.

    `given`: pool and name of each device that it was given; `holder`: uid of the first pod that has them.
    """

    uid: str
    gpus: int
    of_all: bool
    given: tuple[tuple[str, str], ...]
    holder: str


class Devices:
    """Devices and claims as they were told. `classes`: names of the DeviceClasses of whole GPUs."""

    def __init__(self, classes: Iterable[str] = ()) -> None:
        self._classes = frozenset(classes)
        self._slices: dict[str, _Slice] = {}
        """By uid."""
        self._claims: dict[tuple[str, str], _Claim] = {}
        """By namespace and name, as the templates."""
        self._templates: dict[tuple[str, str], _Claim] = {}
        self._names: dict[str, tuple[dict[tuple[str, str], _Claim], tuple[str, str]]] = {}
        """Place at which the claim or template of a uid is kept."""
        self._published: Mapping[str, Published] = {}
        self._whole: Set[tuple[str, str]] = frozenset()
        """Pool and name of each device that is counted."""
        self._is_changed = False

    def take_change(self) -> bool:
        """Tell whether anything has changed since this was asked last."""
        changed, self._is_changed = self._is_changed, False
        if changed:
            self._count()
        return changed

    def on(self, node: str) -> Published | None:
        """GPUs of a node; None: none are published for it."""
        return self._published.get(node)

    def gpus_of(self, namespace: str, claims: Iterable[ClaimName], uid: str = "") -> int:
        """GPUs that the pod of a uid has by its claims; of one that is not there yet, what its template asks for.

        Without a uid those of one pod more.
        """
        total = 0
        for each in claims:
            claim, made_of = self._claims.get((namespace, each.name)), self._templates.get((namespace, each.template))
            if claim is not None and (each.template or (uid and claim.holder == uid)):
                total += self._gpus(claim)
            elif claim is None and made_of is not None:
                total += self._gpus(made_of)
        return total

    def put_slice(self, body: Body) -> None:
        """Take a ResourceSlice."""
        spec, uid = body["spec"], body["metadata"]["uid"]
        self.drop(uid)
        if spec.get("driver") == DRIVER and spec.get("nodeName"):
            pool = spec["pool"]
            told = _DevicePool(str(pool["name"]), int(pool.get("generation", 0)), int(pool["resourceSliceCount"]))
            products = {str(each["name"]): _product(each) for each in spec.get("devices") or () if _is_whole(each)}
            self._slices[uid] = _Slice(told, str(spec["nodeName"]), products)

    def put_claim(self, body: Body) -> None:
        """Take a ResourceClaim."""
        allocation = (body.get("status") or {}).get("allocation")
        results = ((allocation or {}).get("devices") or {}).get("results") or ()
        self._put(self._claims, body, body.get("spec") or {}, None if allocation is None else results)

    def put_template(self, body: Body) -> None:
        """Take a ResourceClaimTemplate."""
        self._put(self._templates, body, (body.get("spec") or {}).get("spec") or {}, None)

    def drop(self, uid: str) -> None:
        """Forget any of the three."""
        self._is_changed = True
        self._slices.pop(uid, None)
        kept, key = self._names.pop(uid, ({}, ("", "")))
        # NB: one that was made anew under its name may have been told before this deletion.
        if key in kept and kept[key].uid == uid:
            del kept[key]

    def _put(self, kept: dict[tuple[str, str], _Claim], body: Body, spec: Body, results: Sequence[Body] | None) -> None:
        """Keep what a claim asks for. `results`: devices that it was given; None: none are allocated yet."""
        metadata, gpus, of_all = body["metadata"], 0, False
        given = Counter(str(each.get("request", "")).partition("/")[0] for each in results or ())
        for request in (spec.get("devices") or {}).get("requests") or ():
            ways = [each for each in _ways(request) if each.get("deviceClassName") in self._classes]
            ways = [each for each in ways if not each.get("adminAccess")]
            takes_all = any(each.get("allocationMode") == "All" for each in ways)
            if takes_all and results is None:
                of_all = True
            elif takes_all:
                gpus += given[str(request.get("name", ""))]
            else:
                gpus += max((count(each.get("count", 1)) for each in ways), default=0)
        mine = [each for each in results or () if each.get("driver") == DRIVER and not each.get("adminAccess")]
        names = tuple((str(each.get("pool", "")), str(each.get("device", ""))) for each in mine)
        holders = ((body.get("status") or {}).get("reservedFor") or ()) if results is not None else ()
        holder = next((str(each.get("uid", "")) for each in holders if each.get("resource") == "pods"), "")
        claim, key = (
            _Claim(metadata["uid"], gpus, of_all, names, holder),
            (metadata.get("namespace", ""), metadata["name"]),
        )
        self._is_changed |= kept.get(key) != claim
        kept[key] = claim
        self._names[claim.uid] = kept, key

    @property
    def _most(self) -> int:
        return max((each.gpus for each in self._published.values()), default=0)

    def _gpus(self, claim: _Claim) -> int:
        # NB: what it was given counts by whatever class it asked: GPUs that are held are no free ones.
        return max(claim.gpus + (self._most if claim.of_all else 0), sum(each in self._whole for each in claim.given))

    def _count(self) -> None:
        newest: dict[str, int] = {}
        for each in self._slices.values():
            newest[each.pool.name] = max(each.pool.generation, newest.get(each.pool.name, 0))
        pools: defaultdict[str, list[_Slice]] = defaultdict(list)
        for each in self._slices.values():
            if each.pool.generation == newest[each.pool.name]:
                pools[each.pool.name].append(each)
        found, whole = defaultdict[str, list[str]](list), set[tuple[str, str]]()
        for slices in pools.values():
            if len(slices) == slices[0].pool.slices:
                for each in slices:
                    found[each.node] += each.products.values()
                    whole |= {(each.pool.name, device) for device in each.products}
        self._whole = whole
        self._published = {
            node: Published(len(products), products[0] if len(set(products)) == 1 else "")
            for node, products in found.items()
        }


def _ways(request: Body) -> Iterable[Body]:
    """Ways in which a request may be met."""
    return request.get("firstAvailable") or (request.get("exactly") or {},)


def _is_whole(device: Body) -> bool:
    is_tainted = any(taint.get("effect") in KEEPING_AWAY for taint in device.get("taints") or ())
    return _attribute(device, "type") == WHOLE and not device.get("consumesCounters") and not is_tainted


def _product(device: Body) -> str:
    return _attribute(device, "productName")


def _attribute(device: Body, name: str) -> str:
    """A text; without a domain in its name it is one of the driver's own."""
    attributes: Mapping[str, Any] = device.get("attributes") or {}
    value = attributes.get(name) or attributes.get(f"{DRIVER}/{name}") or {}
    return str(value.get("string", ""))
