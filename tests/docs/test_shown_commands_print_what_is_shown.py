"""Every command in a `console` block is run, and prints what the page shows below it.

`python -m tests.docs` writes the pages anew where the output was changed on purpose.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Command, commands, matches, prepare, renewed, run
from tests.docs.pages import PAGES, ROOT, blocks

SHOWN = [page for page in PAGES if blocks(page, "console")]


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    prepare(page, tmp_path)
    for block in blocks(page, "console"):
        session = commands(block)
        for command, printed in zip(session, run(session, tmp_path), strict=True):
            assert matches(command.shown, printed), f"{block.name}: {command.line}\n" + "\n".join(printed)


def test_the_readme_and_the_page_on_sizing_run_the_sizing() -> None:
    lines = [c.line for page in SHOWN for block in blocks(page, "console") for c in commands(block)]

    assert "firsttoken size -f first.yaml" in lines
    assert "firsttoken size -f examples/call-center.yaml" in lines


def test_another_output_is_noticed(tmp_path: Path) -> None:
    (printed,) = run([Command("printf 'a\\nb\\nc\\n'", ())], tmp_path)

    assert printed == ("a", "b", "c")
    assert matches(("a", "b", "c"), printed)
    assert matches(("a", "...", "c"), printed)
    assert not matches(("a", "c"), printed)
    assert not matches(("a", "...", "d"), printed)
    assert renewed(("x", "...", "y"), printed) == ("a", "...", "c")
