"""Markdown as far as these tests need it: pages, fenced blocks, links, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_AT_THE_TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = (*(ROOT / name for name in _AT_THE_TOP), *sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: where it starts in its page, its language, its text."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Page and line, for test ids."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file name that a first line such as `# first.yaml` gives the block."""
        named = re.match(r"# ([\w.-]+\.\w+)\n", self.text)
        return named[1] if named else None


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in any of these languages."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in _FENCE.finditer(text)
        if found[1] in languages
    ]


def blocks_below(page: Path, heading: str, *languages: str) -> list[Block]:
    """The blocks of a page between a heading and the next one, in any of these languages."""
    text = page.read_text(encoding="utf-8")
    hidden = _FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    starts = [hidden.count("\n", 0, found.start()) + 1 for found in _HEADING.finditer(hidden)]
    begin = text.splitlines().index(heading) + 1
    end = min((start for start in starts if start > begin), default=len(text))
    return [block for block in blocks(page, *languages) if begin < block.line < end]


def save_files(page: Path, folder: Path) -> None:
    """Save the YAML blocks of a page that have a file name."""
    for block in blocks(page, "yaml"):
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def prose(text: str) -> str:
    """Text of a page without its fenced blocks."""
    return _FENCE.sub("", text)


def links(page: Path) -> list[str]:
    """Targets of all links and images outside of fenced blocks."""
    outside = prose(page.read_text(encoding="utf-8"))
    return [target or attribute for target, attribute in _LINK.findall(outside)]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = _HEADING.findall(prose(page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def table(page: Path, heading: str) -> list[tuple[str, ...]]:
    """The rows below the header of the first table after a heading; cells without backticks."""
    text = "\n" + page.read_text(encoding="utf-8")
    section = text.split(f"\n{heading}\n", 1)[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [tuple(cell.strip().replace("`", "") for cell in line[1:-1].split("|")) for line in lines[2:]]
