"""Docstrings can be scanned: their first lines begin with a verb or a noun, and not with a question."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.source import parsed

ROOT = Path(__file__).parents[2]
TREES = ("operator", "sizing", "benchmarks", "demo", "tools", "tests")
LEADS = {"what", "whether", "how", "of", "which", "from", "why", "where", "when", "who", "whose", "whom", "for"}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring: that of a module, class or function, and that below what is assigned."""
    for node in ast.walk(parsed(source)):
        for name, block in ast.iter_fields(node):
            if not isinstance(block, list):
                continue
            for before, statement in zip([None, *block], block, strict=False):
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        opens = before is None and name == "body" and isinstance(node, DOCUMENTED)
                        if opens or isinstance(before, ast.Assign | ast.AnnAssign):
                            yield statement.lineno, text


def first_word(text: str) -> str:
    found = re.search(r"\w+", text)
    return found.group().lower() if found else ""


@pytest.mark.slow
@pytest.mark.parametrize("tree", TREES)
def test_no_docstring_begins_with_a_question_or_a_preposition(tree: str) -> None:
    files = sorted((ROOT / tree).rglob("*.py"))
    found = {
        f"{file.relative_to(ROOT)}:{line}": text for file in files for line, text in docstrings(file.read_text("utf-8"))
    }

    assert len(found) > len(files) / 2
    assert [place for place, text in found.items() if first_word(text) in LEADS] == []


@pytest.mark.parametrize(
    "source",
    [
        '"""What is here."""',
        'class A:\n    """`What` it is."""',
        'async def a():\n    """\n    Whether it is.\n    """',
        'A = 1\n"""Of B."""',
        'class A:\n    a: int\n    """From B on."""',
        'class A:\n    def __init__(self):\n        self.a = 1\n        """When it was."""',
        'if A:\n    pass\nelse:\n    b = 1\n    """Who it is."""',
    ],
)
def test_each_kind_of_docstring_is_read(source: str) -> None:
    assert first_word(next(docstrings(source))[1]) in LEADS


def test_other_texts_are_free() -> None:
    source = '"""Whatever is here."""\nprint("""What is printed.""")\nA = """What is assigned."""'

    assert [first_word(text) for _, text in docstrings(source)] == ["whatever"]
