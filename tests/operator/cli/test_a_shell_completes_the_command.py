"""The script of `firsttoken completion` is loaded in a real shell, which then completes what is typed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firsttoken_operator.cli import COMMANDS, main
from firsttoken_operator.cli.completion import SHELLS, script

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ("firsttoken", "kubectl-firsttoken")
TYPED = [
    (("simu",), {"simulate"}),
    (("replay", "--rate-"), {"--rate-scale"}),
    (("replay", "--policy", "kn"), {"knative"}),
    (("size", "--arrivals", "Cl"), {"ClosedLoop"}),
    (("size", "--gpu", "H100-S"), {"H100-SXM-80GB"}),
    (("size", "--model", "meta-llama/Llama-3.1-8"), {"meta-llama/Llama-3.1-8B-Instruct"}),
    (("size", "-f", "examples/call"), {"examples/call-center.yaml"}),
    (("completion", "z"), {"zsh"}),
]
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
function=$(complete -p "$1" | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
"$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source $argv[1]; complete -C "$argv[2..]"'
# Ctrl-X completes the word and shows the line. What the terminal echoes of this has the marks in pieces.
ZSH = (
    "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; bindkey '^X' shown; zle -N shown; "
    'shown() {{ zle complete-word; zle -I; print -r -- "[BEG""IN]${{BUFFER}}[EN""D]" }}'
)
ZSH_SECONDS = 30.0


def in_bash(file: Path, words: tuple[str, ...]) -> set[str]:
    command = ["bash", "--norc", "-c", BASH, "bash", str(file), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def in_fish(file: Path, words: tuple[str, ...]) -> set[str]:
    command = ["fish", "--no-config", "-c", FISH, str(file), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return {line.partition("\t")[0] for line in done.stdout.splitlines()}


def in_zsh(file: Path, words: tuple[str, ...]) -> set[str]:
    """Ask for what stands on the line after a completion: zsh completes nothing outside of its line editor."""
    leader, follower = pty.openpty()
    zsh = subprocess.Popen(["zsh", "-f", "-i"], cwd=ROOT, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen, ends = "", time.monotonic() + ZSH_SECONDS
    try:
        os.write(leader, f"{ZSH.format(folder=file.parent)}\n{' '.join(words)}\x18".encode())
        while "[END]" not in seen and time.monotonic() < ends:
            if select.select([leader], [], [], 1.0)[0]:
                seen += os.read(leader, 4096).decode(errors="replace")
        return {seen.rpartition("[BEGIN]")[2].partition("[END]")[0].split()[-1]}
    finally:
        zsh.kill()
        zsh.wait()
        os.close(leader)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("words", "completed"), TYPED, ids=lambda typed: " ".join(typed) if isinstance(typed, tuple) else ""
)
@pytest.mark.parametrize(("shell", "complete"), [("bash", in_bash), ("zsh", in_zsh), ("fish", in_fish)])
def test_what_is_typed_is_completed(
    shell: str,
    complete: Callable[[Path, tuple[str, ...]], set[str]],
    words: tuple[str, ...],
    completed: set[str],
    program: str,
    tmp_path: Path,
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / f"_{program}"
    file.write_text(script(shell, program), encoding="utf-8")

    assert complete(file, (program, *words)) == completed


def test_every_command_is_offered(tmp_path: Path) -> None:
    file = tmp_path / "firsttoken"
    file.write_text(script("bash", "firsttoken"), encoding="utf-8")

    assert in_bash(file, ("firsttoken", "")) == set(COMMANDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_writes_the_script(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "script"
    assert main(["completion", shell]) == 0
    assert main(["completion", shell, "--out", str(file)]) == 0

    assert capsys.readouterr().out == file.read_text() == script(shell, "firsttoken")


def test_only_a_plugin_has_another_name() -> None:
    assert script("bash", "__main__.py") == script("bash", "firsttoken")
    assert "kubectl-firsttoken" in script("bash", "kubectl-firsttoken")


def test_the_script_is_made_without_the_packages_of_any_extra() -> None:
    code = (
        "import sys\n"
        "for name in ('kopf', 'kubernetes', 'aiohttp', 'plotly', 'numba', 'scipy'): sys.modules[name] = None\n"
        "from firsttoken_operator.cli import main\n"
        "sys.exit(main(['completion', 'bash']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    assert "--tick-seconds" in done.stdout
