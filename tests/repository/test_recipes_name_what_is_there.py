"""The recipes of CONTRIBUTING.md: at most four files each, and every file and test that they name exists."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_, *SECTIONS = re.split(
    r"^### ", (REPOSITORY / "CONTRIBUTING.md").read_text().partition("\n## Release\n")[0], flags=re.M
)
RECIPES = {section.partition("\n")[0]: section for section in SECTIONS}


def test_there_are_the_five_of_them():
    assert [name.removeprefix("Add a").removeprefix("n").strip() for name in RECIPES] == [
        "engine",
        "metric family",
        "rule against a scale-down",
        "policy to the replay",
        "GPU",
    ]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_a_recipe_touches_at_most_four_files_and_names_the_test_to_run_first(recipe):
    steps = re.findall(r"^\d\. `([^`]+)`", recipe, flags=re.M)
    first = re.search(r"^First: `\.venv/bin/pytest ([^`]+)`", recipe, flags=re.M)
    assert first is not None
    tests = [word for word in first[1].split() if word.startswith("tests/")]

    assert 1 <= len(steps) <= 4
    assert tests
    assert [name for name in (*steps, *tests) if not (REPOSITORY / name).is_file()] == []
