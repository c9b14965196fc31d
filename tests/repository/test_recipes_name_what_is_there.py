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
def test_a_recipe_touches_at_most_four_files_and_names_the_tests_to_run_first(recipe):
    steps = re.findall(r"^\d\. `([^`]+)`", recipe, flags=re.M)
    touched = {word for word in re.findall(r"`([^`\s]+)`", recipe.partition("\nFirst: ")[0]) if "/" in word}
    first = re.search(r"^First: `\.venv/bin/pytest ([^`]+)`", recipe, flags=re.M)
    assert first is not None
    tests = [word for word in first[1].split() if word.startswith("tests/")]

    assert 1 <= len(steps) <= 4
    assert touched == set(steps), "a file that is named beside the steps is touched, too"
    assert tests
    assert [name for name in steps if not (REPOSITORY / name).is_file()] == []
    assert [name for name in tests if not (REPOSITORY / name).exists()] == []


def test_they_stand_in_one_place():
    headings = re.findall(r"^## Add an? (.*)$", (REPOSITORY / "docs/develop.md").read_text(), flags=re.M)

    assert headings == ["benchmark format", "engine, a metric family, a rule, a policy, a GPU"]
