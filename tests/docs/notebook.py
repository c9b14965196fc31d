"""Runs a notebook in this process and keeps what its cells show, as Jupyter would: `python -m tests.docs.notebook`.

A cell shows what it prints and the value of its last expression. Pictures are drawn and not kept: they are large, and
differ with the version of matplotlib.
"""

from __future__ import annotations

import ast
import io
import json
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.docs.pages import ROOT

NOTEBOOKS = tuple(sorted((ROOT / "examples").glob("*.ipynb")))
MEASUREMENTS = "COURSE_CSV"
"""Environment variable that names the course's own file, where it is here."""
Output = dict[str, Any]


def shown(file: Path) -> Iterator[list[Output]]:
    """The outputs of each code cell of a notebook, run in its folder; whatever a cell raises is raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    # pandas cuts what it prints to the width of the terminal.
    with chdir(file.parent), patch.dict(os.environ, {"COLUMNS": "100"}):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield _outputs("".join(cell["source"]), names)


def rewrite_all() -> None:
    """Write what the cells of every notebook show now into it."""
    os.environ.pop(MEASUREMENTS, None)
    for file in NOTEBOOKS:
        document = json.loads(file.read_text(encoding="utf-8"))
        outputs = shown(file)
        for cell in document["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = next(outputs)
        file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _outputs(source: str, names: dict[str, Any]) -> list[Output]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found: list[Output] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        found.append({"data": _data(value), "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def _data(value: Any) -> dict[str, list[str]]:
    if hasattr(value, "_repr_png_"):
        assert value._repr_png_().startswith(b"\x89PNG")
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_") and (html := value._repr_html_()) is not None:
        data["text/html"] = html.splitlines(keepends=True)
    return data


if __name__ == "__main__":
    rewrite_all()
