"""Names: reading a catalog file and finding an entry by any of its names. Shared by models and GPUs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, Generic, Protocol, TypeVar

SCHEMA = 1
"""Version of the layout of the data files; a reader refuses any other."""


class Named(Protocol):
    """An entry of a catalog."""

    @property
    def name(self) -> str:
        """Canonical name."""
        ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names, as they are written elsewhere."""
        ...


Entry = TypeVar("Entry", bound=Named)


class Index(Generic[Entry]):
    """Entries by folded name. `implied` adds names that follow from an entry and need not be listed in the file."""

    def __init__(self, entries: Sequence[Entry], implied: Callable[[Entry], list[str]]) -> None:
        self.entries = tuple(entries)
        self._by_name: dict[str, Entry] = {}
        for entry in entries:
            for name in (entry.name, *entry.aliases, *implied(entry)):
                other = self._by_name.setdefault(fold(name), entry)
                if other is not entry:
                    raise ValueError(f"catalog: {name!r} is a name of both {other.name} and {entry.name}")

    def find(self, name: str) -> Entry | None:
        """The entry of this name, or None."""
        return self._by_name.get(fold(name))

    def advice(self, name: str, listing: str) -> str:
        """Advice for a name that is not here: the nearest ones, else the command that lists all."""
        # NB: imported here because difflib is needed for a mistake only and costs as much as the whole look-up.
        from difflib import get_close_matches

        wanted = fold(name)
        words = set(wanted.split("-"))
        # A part of a name such as `H100` or `B200-180GB` is far from every full name by edit distance: names that
        # continue it, or have all its words, come first.
        near = [known for known in self._by_name if wanted and known.startswith(wanted)]
        near = near or [known for known in self._by_name if words <= set(re.split("[-/]", known))]
        near = near or get_close_matches(wanted, self._by_name, n=8, cutoff=0.7)
        names = list(dict.fromkeys(self._by_name[key].name for key in near))[:4]
        return f"did you mean {' or '.join(names)}?" if names else f"`{listing}` lists the known names"


def fold(name: str) -> str:
    """A name without what people write differently: case, and `-`, `_`, `.` or spaces between its parts."""
    return re.sub(r"[\s_.\-]+", "-", name.strip().casefold())


def _read_document(catalog: str) -> dict[str, Any]:
    """One shipped data file (`models`, `gpus`, ...)."""
    text = resources.files("firsttoken_sizing.catalog").joinpath("data", f"{catalog}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    if document["schema"] != SCHEMA:
        raise ValueError(f"{catalog}.json has schema {document['schema']}, this version reads {SCHEMA}")
    return document


def read_entries(catalog: str) -> list[dict[str, Any]]:
    """The entries of one shipped data file."""
    entries: list[dict[str, Any]] = _read_document(catalog)[catalog]
    return entries


def read_values(catalog: str, section: str) -> dict[str, Any]:
    """Figures by name, without their sources, of one section of a shipped data file."""
    return {name: entry["value"] for name, entry in _read_document(catalog)[section].items()}
