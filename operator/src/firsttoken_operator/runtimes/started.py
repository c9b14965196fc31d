"""Reading of a container's start: which server it runs, and with which settings, as far as its words tell.

A tenant writes the words. They are read and never run, up to a bound, and only numbers are kept of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firsttoken_operator.runtimes import CONTAINERS
from firsttoken_operator.runtimes.settings import Given, Options, Started

MOST_CHARACTERS = 8_192
"""Characters of a start that are read, and words, each as one more. The rendered ones have below 2,000."""
_LONGEST_VALUE = 512
"""Characters of a variable that is put in the place of its name."""
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
_VARIABLE = re.compile(r"(?<!\$)\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_OPTION = re.compile(r"--?[A-Za-z]")
_ENDS = frozenset("();&|\n")
"""Characters that end a command of a shell."""
_SERVERS = tuple(container.options for container in CONTAINERS if container.options is not None)
_STARTS = {
    first: [(start, options) for options in _SERVERS for start in options.starts if start[0] == first]
    for first in {start[0] for options in _SERVERS for start in options.starts}
}
"""Starts of servers by their first word."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words that a container is started with. `command`: empty: that of the image."""

    image: str = ""
    command: Sequence[str] = ()
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values stand in the pod."""


def started(words: Words) -> Started | None:
    """Read the settings of the server that a container starts; None: it is none that is known, or cannot be read.

    A word that a shell or another object fills in says nothing, and neither does what is missing beside it.
    """
    texts = (*words.command, *words.arguments, *words.environment.values())
    if sum(map(len, texts)) + len(texts) > MOST_CHARACTERS:
        return None
    said = [_filled_in(word, words.environment) for word in (*words.command, *words.arguments)]
    if sum(map(len, said)) > MOST_CHARACTERS:
        return None
    try:
        found = [start for command in _commands(said) for start in _starts(command)]
        if not found and not words.command:
            found = _of_image(words.image, said)
        if not found:
            found = [(options, ()) for options in _SERVERS if words.environment.keys() & _variables(options)]
        return _read(*found[0], words.environment) if len(found) == 1 else None
    except ValueError:
        return None  # A quotation without an end: what a shell makes of it is not known.


def _read(options: Options, words: Sequence[str], environment: Mapping[str, str]) -> Started:
    values = {option: environment[name] for name, option in options.variables.items() if name in environment}
    passed = shlex.split(environment.get(options.passed, ""))
    told, is_whole = given_by((*passed, *words))
    given = {**{name: value for name, value in values.items() if name not in told}, **told}
    left = options.left(given) if is_whole else frozenset()
    return Started(options.settings(given), left, options.drained(given, is_whole=is_whole))


def given_by(words: Sequence[str]) -> tuple[Given, bool]:
    """Read the options among words, of one given twice the last; and whether no word may hide further ones."""
    given: dict[str, str] = {}
    is_whole, name = True, ""
    for word in words:
        if _is_option(word):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            # NB: of two names of a setting the last one counts, so that the order matters.
            given.pop(name, None)
            given[name] = value
            name = "" if equals else name
        elif name:
            given[name], name = word, ""
        else:
            is_whole = is_whole and "$" not in word
    # NB: where a shell puts in the answer of another command, the words behind it are not read.
    return given, is_whole and not any("`" in word or word.endswith("$") for word in words)


def _is_option(word: str) -> bool:
    return _OPTION.match(word) is not None


def _commands(said: Sequence[str]) -> Iterator[Sequence[str]]:
    """Commands of a start: the one, or those of the script that a shell is given."""
    is_shell = bool(said) and _base(said[0]) in _SHELLS
    script = next((n + 1 for n, word in enumerate(said) if n > 0 and re.fullmatch(r"-[a-z]*c", word)), None)
    if not is_shell or script is None:
        yield said
    elif script < len(said):
        yield from _commands_of_script(said[script])


def _commands_of_script(script: str) -> Iterator[Sequence[str]]:
    """Commands of a shell's script. Raises ValueError for a quotation without an end."""
    text = re.sub(r"(?m)^[ \t]*#.*$", "", script).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="".join(_ENDS))
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    command: list[str] = []
    for word in lexer:
        if word and _ENDS.issuperset(word):
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _starts(command: Sequence[str]) -> Iterator[tuple[Options, Sequence[str]]]:
    """Servers that a command starts, with the words after each."""
    for n, word in enumerate(command):
        for start, options in _STARTS.get(_base(word), ()):
            if tuple(command[n + 1 : n + len(start)]) == start[1:]:
                yield options, command[n + len(start) :]


def _of_image(image: str, said: Sequence[str]) -> list[tuple[Options, Sequence[str]]]:
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return [(options, said) for options in _SERVERS if name in options.images]


def _variables(options: Options) -> Iterable[str]:
    return {*options.variables, options.passed} - {""}


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _filled_in(word: str, environment: Mapping[str, str]) -> str:
    """Put the values of variables into a word, as the kubelet does; names of others stay as they are."""

    def value(found: re.Match[str]) -> str:
        told = environment.get(found[1])
        return found[0] if told is None or len(told) > _LONGEST_VALUE else told

    return _VARIABLE.sub(value, word) if "$(" in word else word
