"""Sizings that outlive the process: in ConfigMaps of the operator's own namespace, by the content of their questions.

A thousand sizings take minutes; a new process reads those of the last one in a second (see
docs/adr/0008-sizings-are-kept-in-config-maps.md). Each answer is in the ConfigMap that the first digit of its content
names. What cannot be read or kept is sized again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import zlib
from collections.abc import Callable, Mapping
from functools import partial

from pydantic import ValidationError

from firsttoken_operator.act.backlog import Key, Priority
from firsttoken_operator.act.errors import ClusterError, NotFound
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.status import Answer
from firsttoken_operator.api.stored_sizing import StoredSize, StoredSizing, StoredTable
from firsttoken_operator.domain import Sized, Unsized
from firsttoken_operator.run.sizer import Kept

logger = logging.getLogger(__name__)

SAVE_TICKS = 2
REQUESTS = 3
"""Most that one write takes."""
UID = "sizings"
"""Under which the queue of writes knows them."""
SHARDS = "0123456789abcdef"
SHARD_BYTES = 900_000
"""Bytes that are used of the mebibyte that a ConfigMap may hold: about 240 answers, 4,000 in all."""
ANSWER_BYTES = 1_000_000
"""More than any answer has; what unpacks to more is none of ours."""


class SizingStore:
    """ConfigMaps called `name` (`namespace/name`) and the digit."""

    def __init__(self, cluster: KubernetesCluster, writes: WriteQueue, name: str) -> None:
        self._namespace, _, self._name = name.partition("/")
        self._cluster, self._writes = cluster, writes
        self._there: dict[str, Mapping[str, str]] = {}
        """Contents of each ConfigMap, as far as they are known."""
        self._versions: dict[str, str] = {}
        """`resourceVersion` of those."""
        self._packed: dict[str, tuple[Kept, str]] = {}

    async def load(self) -> dict[str, Kept]:
        """Load what the last process knew, by content. Never raises `ClusterError`."""
        found = await asyncio.gather(*map(self._load, SHARDS))
        kept = {content: each for shard in found for content, each in shard.items()}
        logger.info("%d sizings are known from before", len(kept))
        return kept

    async def save_forever(self, kept: Callable[[], Mapping[str, Kept]], interval_seconds: float) -> None:
        """Write what is new after every interval."""
        while True:
            await asyncio.sleep(interval_seconds)
            await self.save(kept())

    async def save(self, kept: Mapping[str, Kept]) -> None:
        """Have the ConfigMaps hold exactly this, once their turn comes in the queue of all writes."""
        # NB: in a thread, because a thousand answers take a second to pack.
        wanted = await asyncio.to_thread(self._shards, kept)
        for shard, answers in wanted.items():
            if answers != self._there.get(shard, {}):
                self._writes.put(
                    Key(UID, "sizings", shard), Priority.STATUS, partial(self._write, shard, answers), REQUESTS
                )

    async def _write(self, shard: str, answers: Mapping[str, str]) -> None:
        """Write over the version that is known, and over no other."""
        ref = self._ref(shard)
        metadata = {"name": ref.name, "namespace": ref.namespace}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        if shard not in self._versions:
            try:
                found = await self._cluster.read(ref)
            except NotFound:
                # NB: without answers, because an apply takes away only what an apply has set.
                found = await self._cluster.create(manifest)
            self._versions[shard] = found["metadata"]["resourceVersion"]
        # What comes of this write is not known until it is answered.
        version = self._versions.pop(shard)
        written = await self._cluster.apply(
            manifest | {"metadata": metadata | {"resourceVersion": version}, "binaryData": answers}
        )
        self._there[shard], self._versions[shard] = answers, written["metadata"]["resourceVersion"]

    async def _load(self, shard: str) -> dict[str, Kept]:
        try:
            found = await self._cluster.read(self._ref(shard))
        except NotFound:
            return {}
        except ClusterError as error:
            logger.warning("the sizings from before cannot be read: %s", error)
            return {}
        self._there[shard], self._versions[shard] = found.get("binaryData") or {}, found["metadata"]["resourceVersion"]
        return await asyncio.to_thread(_unpacked, self._there[shard])

    def _shards(self, kept: Mapping[str, Kept]) -> dict[str, dict[str, str]]:
        """Fill each ConfigMap, as far as there is room."""
        packed = {}
        for content, each in kept.items():
            known = self._packed.get(content)
            packed[content] = known if known is not None and known[0] == each else (each, pack(each))
        self._packed = packed
        shards: dict[str, dict[str, str]] = {shard: {} for shard in SHARDS}
        sizes = dict.fromkeys(SHARDS, 0)
        for content in sorted(packed):
            text = packed[content][1]
            sizes[content[0]] += len(content) + len(text)
            if sizes[content[0]] <= SHARD_BYTES:
                shards[content[0]][content] = text
        return shards

    def _ref(self, shard: str) -> ObjectRef:
        return ObjectRef("v1", "ConfigMap", self._namespace, f"{self._name}-{shard}")


def pack(kept: Kept) -> str:
    """One answer as a ConfigMap holds it."""
    answer, sized = kept.answer, kept.answer.sized
    assert answer.declared is not None, "only answers of the sizing model are kept"
    size = None
    if isinstance(sized, Sized):
        size = StoredSize(
            configuration=sized.configuration, table=StoredTable.of(sized.table), sla=sized.sla,
            replicas_for_declared_peak=sized.replicas_for_declared_peak,
            replicas_for_declared_average=sized.replicas_for_declared_average,
            most_replicas_for_declared_peak=sized.most_replicas_for_declared_peak, careful_share=sized.careful_share,
            peak_requests_per_second=sized.peak_requests_per_second, settings=sized.settings,
        )  # fmt: skip
    stored = StoredSizing(
        generations=dict(kept.generations), size=size,
        reason=sized.reason if isinstance(sized, Unsized) else None,
        message=sized.message if isinstance(sized, Unsized) else "",
        shown=answer.shown, declared=answer.declared, cost_per_hour=answer.cost_per_hour,
        recommended=answer.recommended, compared=answer.compared,
    )  # fmt: skip
    return base64.b64encode(zlib.compress(stored.model_dump_json(exclude_none=True).encode())).decode()


def unpack(text: str) -> Kept:
    """The answer that was packed. Raises ValueError for anything else."""
    try:
        document = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), ANSWER_BYTES)
        stored = StoredSizing.model_validate_json(document)
    except (binascii.Error, zlib.error, ValidationError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    size = stored.size
    if size is not None:
        sized: Sized | Unsized = Sized(
            size.configuration, size.table.table(), size.sla,
            size.replicas_for_declared_peak, size.replicas_for_declared_average,
            size.most_replicas_for_declared_peak, size.careful_share, size.peak_requests_per_second, size.settings,
        )  # fmt: skip
    else:
        assert stored.reason is not None, "a stored answer is a size or a reason"
        sized = Unsized(stored.reason, stored.message)
    answer = Answer(
        sized, stored.shown, stored.declared, stored.cost_per_hour, stored.recommended, compared=stored.compared
    )  # fmt: skip
    return Kept(answer, stored.generations)


def _unpacked(answers: Mapping[str, str]) -> dict[str, Kept]:
    kept = {}
    for content, text in answers.items():
        try:
            kept[content] = unpack(text)
        except ValueError as error:
            # One that another version wrote, or that came to harm, is sized again.
            logger.info("a kept sizing cannot be read: %s", str(error).partition("\n")[0])
    return kept
