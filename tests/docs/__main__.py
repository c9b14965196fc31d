"""Writes what commands print now into the pages, and what cells show into the notebooks: `python -m tests.docs`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs import notebook
from tests.docs.console import commands, prepare, renewed, run
from tests.docs.pages import PAGES, ROOT, blocks


def main() -> int:
    """Rewrite every page and notebook whose shown output is out of date."""
    notebook.rewrite_all()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = text
        with tempfile.TemporaryDirectory() as folder:
            prepare(page, Path(folder))
            for block in blocks(page, "console"):
                session = commands(block)
                printed = run(session, Path(folder))
                lines = [
                    line
                    for command, output in zip(session, printed, strict=True)
                    for line in (f"$ {command.line}", *renewed(command.shown, output))
                ]
                new = new.replace(block.text, "\n".join(lines) + "\n", 1)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"rewrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
