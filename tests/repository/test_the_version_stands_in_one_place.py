"""A release writes the version once for all: into pyproject.toml, and from there into chart, lock and changelog."""

import shutil
from pathlib import Path

import pytest
import yaml

from tools.release import ReleaseError, prepare, project_version

REPOSITORY = Path(__file__).parents[2]
FILES = ("pyproject.toml", "uv.lock", "CHANGELOG.md", "helm/firsttoken/Chart.yaml")


def chart(root):
    return yaml.safe_load((root / "helm/firsttoken/Chart.yaml").read_text())


def locked(root):
    entry = (root / "uv.lock").read_text().partition('name = "firsttoken"\nversion = "')[2]
    return entry.partition('"')[0]


@pytest.fixture
def copy(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    text = (tmp_path / "CHANGELOG.md").read_text()
    text = text.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Fixed\n\n- **Test**: one line.\n", 1)
    (tmp_path / "CHANGELOG.md").write_text(text)
    return tmp_path


def test_chart_and_lock_name_the_version_of_the_project():
    version = project_version(REPOSITORY)
    named = chart(REPOSITORY)

    assert (named["version"], named["appVersion"], locked(REPOSITORY)) == (version, version, version)


def test_the_changelog_says_what_is_in_the_version_of_the_project():
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    newest = changelog.partition("## [Unreleased]\n")[2].partition("\n## [")[2]

    assert newest.startswith(f"{project_version(REPOSITORY)}] - 20")


def test_a_release_moves_every_place_and_heads_the_changelog(copy):
    prepare(copy, "7.0.1", "2030-01-02")

    assert project_version(copy) == "7.0.1"
    assert (chart(copy)["version"], chart(copy)["appVersion"], locked(copy)) == ("7.0.1", "7.0.1", "7.0.1")
    assert "## [Unreleased]\n\n## [7.0.1] - 2030-01-02\n\n### Fixed\n" in (copy / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("version", ["1.0", "v9.0.0", "9.0.0-rc1", "", "0.0.1"])
def test_what_is_no_higher_version_is_refused_and_nothing_is_written(copy, version):
    before = [(copy / name).read_text() for name in FILES]

    with pytest.raises(ReleaseError, match="VERSION="):
        prepare(copy, version, "2030-01-02")

    assert [(copy / name).read_text() for name in FILES] == before


def test_a_release_without_a_word_on_it_is_refused(copy):
    (copy / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [0.0.1] - 2020-01-01\n\n- old\n")

    with pytest.raises(ReleaseError, match="nothing stands below"):
        prepare(copy, "7.0.1", "2030-01-02")
