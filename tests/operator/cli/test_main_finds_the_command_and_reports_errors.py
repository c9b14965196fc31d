"""The `firsttoken` command line: lazy subcommands, one line an error, exit status 2 for bad input."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType

import pytest

from firsttoken_operator import cli
from firsttoken_operator.api.errors import UnreadableDocument
from firsttoken_operator.cli.output import local_file
from firsttoken_sizing.errors import UnknownGPU


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Adds a command `probe` that does what a test says."""

    def install(does: Callable[[], int]) -> None:
        module = ModuleType("firsttoken_operator.cli.probe")
        module.configure = lambda parser: parser.add_argument("--count", type=int, default=0)  # type: ignore[attr-defined]
        module.run = lambda args: does() + args.count  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, "probe", cli.Command("probe", "does what a test says"))

    return install


def raising(error: BaseException) -> Callable[[], int]:
    def fail() -> int:
        raise error

    return fail


def test_the_exit_status_is_that_of_the_command(command: Callable[..., None]) -> None:
    command(lambda: 3)

    assert cli.main(["probe"]) == 3
    assert cli.main(["probe", "--count", "1"]) == 4


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0

    shown = capsys.readouterr().out
    assert all(f"    {name} " in shown for name in ("size", "import", "traffic", "emulate", "operator"))


def test_no_command_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2

    assert "usage: firsttoken" in capsys.readouterr().err


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0

    assert capsys.readouterr().out == f"firsttoken {version('firsttoken')}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["bogus"], "firsttoken: argument COMMAND: invalid choice: 'bogus'"),
        (["probe", "--count", "x"], "firsttoken probe: argument --count: invalid int value: 'x'"),
        (["probe", "--flag"], "firsttoken: unrecognized arguments: --flag"),
    ],
)
def test_a_bad_argument_is_one_line(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    command(lambda: 0)

    assert cli.main(arguments) == 2

    (shown,) = capsys.readouterr().err.splitlines()
    assert shown.startswith(line)
    assert shown.endswith("--help)")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            UnknownGPU("hardware.gpus", "unknown GPU 'X'", "did you mean L4?"),
            "firsttoken: hardware.gpus: unknown GPU 'X'; did you mean L4?",
        ),
        (UnreadableDocument("a.yaml", "is not\nYAML", "fix it"), r"firsttoken: a.yaml: is not\nYAML; fix it"),
    ],
)
def test_what_a_user_caused_is_one_line(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    command(raising(error))

    assert cli.main(["probe"]) == 2
    assert capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize(
    ("package", "wanted"),
    [
        ("kopf", "firsttoken[operator]"),
        ("prometheus_api_client", "firsttoken[operator]"),
        ("kubernetes.aio", "firsttoken[operator]"),
        ("plotly.graph_objects", "firsttoken[plots]"),
        ("rich", "firsttoken"),
    ],
)
def test_a_missing_package_names_what_to_install(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str], package: str, wanted: str
) -> None:
    command(raising(ModuleNotFoundError(f"No module named {package!r}", name=package)))

    assert cli.main(["probe"]) == 2
    assert f"firsttoken probe needs: pip install '{wanted}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("ours", name="firsttoken_operator.gone"), ValueError("a defect"), KeyError("x")]
)
def test_a_defect_is_not_hidden(command: Callable[..., None], error: Exception) -> None:
    command(raising(error))

    with pytest.raises(type(error)):
        cli.main(["probe"])


def test_ctrl_c_ends_without_a_traceback(command: Callable[..., None]) -> None:
    command(raising(KeyboardInterrupt()))

    assert cli.main(["probe"]) == 130


def test_as_a_kubectl_plugin_it_is_called_what_the_user_types(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-firsttoken", "traffic"])

    assert cli.main(["traffic"]) == 2
    assert capsys.readouterr().err.startswith("kubectl firsttoken traffic: ")


def test_help_loads_the_standard_library_and_nothing_else() -> None:
    """`--help` must be quick, and `size` must work without the operator's packages."""
    script = (
        "import sys; before = set(sys.modules); from firsttoken_operator import cli; status = cli.main(['--help'])\n"
        "new = sorted(set(sys.modules) - before)\n"
        "print(status, 'asyncio' in sys.modules, [n for n in new if n.split('.')[0] not in sys.stdlib_module_names])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert shown.splitlines()[-1] == "0 False ['firsttoken_operator', 'firsttoken_operator.cli']"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "firsttoken_operator.cli", "traffic", "--average-requests-per-second", "1"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)

    assert process.stderr == ""
    assert process.returncode == 1


def test_a_mistyped_command_leads_to_the_one_that_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulat", "-f", "x.yaml"]) == 2
    assert capsys.readouterr().err == "firsttoken: no command 'simulat'; did you mean simulate?\n"


def options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {option: action for action in parser._actions for option in action.option_strings}


def test_o_is_a_format_and_out_is_a_file_in_every_command() -> None:
    (commands,) = (a for a in cli.whole_parser("firsttoken")._actions if isinstance(a, argparse._SubParsersAction))
    of_command = {name: options(parser) for name, parser in commands.choices.items()}

    formats = {name: found["-o"].choices for name, found in of_command.items() if "-o" in found}
    assert {"size", "plan", "curve", "simulate", "replay", "traffic", "models", "gpus", "top", "explain"} == set(
        formats
    )
    assert all("json" in (choices or ()) for choices in formats.values())
    files = {name: found["--out"].type for name, found in of_command.items() if "--out" in found}
    assert set(files) == {"import", "completion", "warm", *formats}
    assert set(files.values()) == {local_file}


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "{}"),
        ("size", "-f", "x.yaml", "--benchmarks", "{}"),
        ("size", "-f", "x.yaml", "--plot", "{}"),
        ("gpus", "--out", "{}"),
        ("simulate", "-f", "x.yaml", "--trace", "{}"),
        ("replay", "-f", "x.yaml", "--trace", "{}"),
        ("emulate", "-f", "{}"),
        ("warm", "-f", "{}"),
    ],
    ids=" ".join,
)
def test_a_url_keeps_its_slashes_and_is_told_how_to_read(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://example.com/results.json"

    assert cli.main([argument.format(url) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f": {url} is a URL; download it first: curl -fsSLO {url} (see firsttoken {arguments[0]} --help)" in line


SIZE = ("size", "--model", "llama-3-8b", "--gpu", "L4", "--input-tokens", "9", "--output-tokens", "9", "--rps", "1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("gpus",),
        ("models", "-o", "json"),
        ("traffic", "--average-requests-per-second", "1"),
        ("completion", "bash"),
        (*SIZE, "--ttft", "900"),
        (*SIZE, "--ttft", "900", "-o", "yaml"),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_a_full_disk_is_told_in_a_line(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "firsttoken_operator.cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )

    assert done.stderr == "firsttoken: the answer cannot be written: No space left on device\n"
    assert done.returncode == 1


def test_a_full_disk_below_a_file_is_told_with_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gpus", "--out", "/dev/full"]) == 2
    line = "firsttoken: --out: /dev/full: No space left on device; name a file that can be written\n"
    assert capsys.readouterr().err == line
