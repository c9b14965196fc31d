"""The requests of a simulation: when they arrive and how long they are. Made here or read from a trace.

A trace is a CSV of `arrival_s,input_tokens,output_tokens`, plain or gzip; columns are found by name, others ignored. It
says nothing of cached prefixes: their share is the caller's.
"""

from __future__ import annotations

import gzip
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths, Spread

COLUMNS = ("arrival_s", "input_tokens", "output_tokens")
_GZIP = b"\x1f\x8b"
CLIENT_TURNAROUND_SECONDS = 0.002
"""Mean time that a closed-loop client takes between an answer and its next request. Without it equal requests never
leave lockstep, which real benchmark clients do."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """One entry a request in each array; all of length n.

    Without `concurrency` requests come at `arrival_s` (seconds, ascending, not negative). With it the loop is closed:
    so many clients each send their next request `arrival_s` seconds after their last answer (the first one that long
    after the start). Raises `InvalidInput` for arrays that do not fit together.
    """

    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    """Prompt tokens that take KV cache, >= 1."""
    uncached_input_tokens: NDArray[np.int64]
    """Prompt tokens that must be computed, >= 1: engines compute at least the last one again."""
    output_tokens: NDArray[np.int64]
    """Tokens made, >= 1."""
    concurrency: int | None = None

    def __post_init__(self) -> None:
        columns = (self.arrival_s, self.input_tokens, self.uncached_input_tokens, self.output_tokens)
        if len({len(column) for column in columns}) != 1:
            raise InvalidInput("requests", "the arrays differ in length", "give one entry a request in each")
        if not len(self.arrival_s):
            raise InvalidInput("requests", "there are none", "give at least one")
        if not np.isfinite(self.arrival_s).all() or self.arrival_s.min() < 0:
            raise InvalidInput("requests.arrival_s", "has a value that is negative or not finite", "use seconds >= 0")
        if self.concurrency is None and (np.diff(self.arrival_s) < 0).any():
            raise InvalidInput("requests.arrival_s", "does not ascend", "sort the requests by arrival")
        if self.concurrency is not None and self.concurrency < 1:
            raise InvalidInput("requests.concurrency", f"{self.concurrency} is below 1", "use at least 1")
        for name, column in (
            ("input_tokens", self.input_tokens),
            ("uncached_input_tokens", self.uncached_input_tokens),
            ("output_tokens", self.output_tokens),
        ):
            if column.min() < 1:
                raise InvalidInput(f"requests.{name}", f"has {column.min()}", "use at least 1 token")
        if (self.uncached_input_tokens > self.input_tokens).any():
            raise InvalidInput("requests.uncached_input_tokens", "exceeds input_tokens", "use at most input_tokens")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def only(self, which: NDArray[np.bool_]) -> Requests:
        """Those that a mask names, of requests that come at given times."""
        prompt, uncached, output = self.input_tokens, self.uncached_input_tokens, self.output_tokens
        return Requests(self.arrival_s[which], prompt[which], uncached[which], output[which])


def equal_requests(lengths: Lengths, arrival_s: NDArray[np.float64], concurrency: int | None = None) -> Requests:
    """Requests of the mean lengths (rounded to whole tokens), at the given arrivals (see `Requests`)."""
    ones = np.ones(len(arrival_s))
    return _requests(lengths, ones, ones, arrival_s, concurrency)


def drawn_requests(
    lengths: Lengths, arrival_s: NDArray[np.float64], rng: np.random.Generator, concurrency: int | None = None
) -> Requests:
    """Requests whose lengths are drawn from the spread of `lengths`, input and output independently of each other."""
    count = len(arrival_s)
    return _requests(
        lengths,
        _draw(lengths.input_spread, count, rng),
        _draw(lengths.output_spread, count, rng),
        arrival_s,
        concurrency,
    )


def _draw(spread: Spread, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Multiples of the mean length."""
    if spread.is_fixed:
        return np.ones(count)
    shares = np.array(spread.shares)
    return rng.choice(np.array(spread.multiples), size=count, p=shares / shares.sum())


def _requests(
    lengths: Lengths,
    input_multiple: NDArray[np.float64],
    output_multiple: NDArray[np.float64],
    arrival_s: NDArray[np.float64],
    concurrency: int | None,
) -> Requests:
    def column(tokens: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.maximum(1, np.rint(tokens)).astype(np.int64)

    return Requests(
        arrival_s=arrival_s,
        input_tokens=column(lengths.input_tokens * input_multiple),
        uncached_input_tokens=column(lengths.uncached_input_tokens * input_multiple),
        output_tokens=column(lengths.output_tokens * output_multiple),
        concurrency=concurrency,
    )


def poisson_arrivals(rate: float, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Arrivals in seconds of `count` independent requests at `rate` a second."""
    return np.cumsum(rng.exponential(1 / rate, count))


def bursty_arrivals(rate: float, count: int, variation: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Arrivals in seconds at `rate` a second on average whose gaps are gamma distributed.

    `variation` (> 0) is their coefficient of variation: 1 is Poisson, above it requests come in bursts, below it they
    are more even. The renewal process that BurstGPT fits to production traces (Wang et al., arXiv:2401.17644).
    """
    shape = 1 / variation**2
    return np.cumsum(rng.gamma(shape, 1 / (rate * shape), count))


def client_pauses(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Waits of closed-loop clients before each of `count` requests, in seconds."""
    return rng.exponential(CLIENT_TURNAROUND_SECONDS, count)


def read_trace(
    file: Path, *, cached_input_percent: float = 0.0, until_s: float | None = None, field: str = "trace"
) -> Requests:
    """The requests of a trace, sorted by arrival, which counts from the first of them (seconds).

    `cached_input_percent` of every prompt is in the prefix cache; with `until_s` only the requests of the first so many
    seconds are taken. Raises `InvalidInput` under the name `field` for a
    file that cannot be read, lacks a column, is empty, or has a value that is no number, negative, or (tokens) below 1.
    """
    try:
        with opened(file) as lines:
            names = [name.strip() for name in lines.readline().split(",")]
            if missing := [column for column in COLUMNS if column not in names]:
                raise InvalidInput(
                    field, f"{file} has no column {', '.join(missing)}", f"its first line must name {','.join(COLUMNS)}"
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there is no data, which is refused below
                rows = np.loadtxt(lines, delimiter=",", usecols=[names.index(name) for name in COLUMNS], ndmin=2)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(field, f"{file}: {reason}", "name a CSV file, plain or gzip") from error
    except ValueError as error:
        raise InvalidInput(field, f"{file}: {error} (rows count from 0)", "correct it") from error
    if not len(rows):
        raise InvalidInput(field, f"{file} has no requests", f"give lines of {','.join(COLUMNS)}")
    for i, column in enumerate(COLUMNS):
        least = 0 if column == "arrival_s" else 1
        wrong = ~(np.isfinite(rows[:, i]) & (rows[:, i] >= least))
        if wrong.any():
            row = int(wrong.argmax())
            raise InvalidInput(
                field, f"{file}: {column} of row {row} is {rows[row, i]:g} (rows count from 0)", f"use {least} or more"
            )
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    rows[:, 0] -= rows[0, 0]
    if until_s is not None:
        rows = rows[rows[:, 0] < until_s]
    prompt = np.rint(rows[:, 1]).astype(np.int64)
    uncached = np.maximum(1, np.rint(prompt * (1 - cached_input_percent / 100))).astype(np.int64)
    return Requests(rows[:, 0], prompt, uncached, np.rint(rows[:, 2]).astype(np.int64))


def opened(file: Path) -> IO[str]:
    """A text file, plain or gzip."""
    with file.open("rb") as raw:
        zipped = raw.read(len(_GZIP)) == _GZIP
    return gzip.open(file, "rt", encoding="utf-8") if zipped else file.open(encoding="utf-8")
