"""`firsttoken traffic`: from what a business knows to `spec.traffic`. The arithmetic is `firsttoken_sizing.traffic`."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from firsttoken_operator.cli.output import add_output, emit
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.traffic import (
    ActiveTime,
    DailyVolume,
    PrefixCaching,
    Prompt,
    average_from_calls,
    average_from_users,
    daily_volume,
    peak_by_factor,
    peak_by_percentile,
    prompt_of,
    tokens_from_words,
)

_PARTS = ("question", "system_prompt", "document")
"""Parts of a prompt whose length can be given, in tokens or in words."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Rates in requests a second, lengths in tokens; None where not given."""

    average: float
    peak: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_input_percent: int
    prompt: Prompt | None
    """Parts of the input, where they were said."""
    per_day: DailyVolume


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `traffic`."""
    add_output(parser, ("table", "json", "yaml"))
    volume = parser.add_argument_group("how much (one of the first three)")
    source = volume.add_mutually_exclusive_group(required=True)
    source.add_argument("--calls-per-year", type=float, metavar="N", help="calls, sessions or jobs in a year")
    source.add_argument("--daily-active-users", type=float, metavar="N", help="people who use it on a day")
    source.add_argument("--average-requests-per-second", type=float, metavar="RATE", help="where it is known already")
    volume.add_argument("--requests-per-call", type=float, metavar="N", help="LLM requests of one call")
    volume.add_argument("--minutes-per-call", type=float, metavar="N", help="with --requests-per-minute, in its place")
    volume.add_argument("--requests-per-minute", type=float, metavar="N", help="LLM requests in a minute of a call")
    volume.add_argument("--requests-per-user", type=float, metavar="N", help="LLM requests of one person on a day")
    volume.add_argument("--hours-per-day", type=float, default=24.0, metavar="H", help="with traffic (default: 24)")
    volume.add_argument("--days-per-year", type=float, default=365.0, metavar="D", help="with traffic (default: 365)")
    peak = parser.add_argument_group("the peak (one of these)").add_mutually_exclusive_group()
    peak.add_argument("--peak-factor", type=float, metavar="N", help="peak as a multiple of the average")
    peak.add_argument("--peak-percentile", type=float, metavar="P", help="Poisson percentile of a second's requests")
    peak.add_argument("--peak-requests-per-second", type=float, metavar="RATE", help="where it is known already")
    lengths = parser.add_argument_group("lengths of a request (means; 0.75 words are a token)")
    for side, what in (("input", "everything counted: system prompt, history, documents"), ("output", "the answer")):
        either = lengths.add_mutually_exclusive_group()
        either.add_argument(f"--{side}-tokens", type=int, metavar="N", help=what)
        either.add_argument(f"--{side}-words", type=float, metavar="N", help="where only words are known")
    parts = parser.add_argument_group("the input by its parts (in place of --input-tokens)")
    for part, what in (
        ("question", "what the user writes"),
        ("system-prompt", "instructions, the same in every request"),
        ("document", "one retrieved document or chunk"),
    ):
        either = parts.add_mutually_exclusive_group()
        either.add_argument(f"--{part}-tokens", type=float, metavar="N", help=what)
        either.add_argument(f"--{part}-words", type=float, metavar="N", help="where only words are known")
    parts.add_argument("--documents", type=float, metavar="N", help="documents or chunks in a prompt")
    parts.add_argument("--turns", type=float, metavar="N", help="questions in a conversation, whose history is sent")
    parts.add_argument(
        "--prefix-caching",
        choices=("off", "system-prompt", "conversation"),
        help="what the engine's prefix cache holds from earlier requests (default: off)",
    )


def run(args: argparse.Namespace) -> int:
    """Compute and print. Raises `InvalidInput` for numbers that make no sense together."""
    answer = _answer(args)
    if args.output == "json":
        text = json.dumps(_as_json(answer), indent=2) + "\n"
    elif args.output == "yaml":
        text = _as_yaml(answer)
    else:
        text = _as_table(answer)
    emit(text.encode(), args.out)
    return 0


def _answer(args: argparse.Namespace) -> _Answer:
    active = ActiveTime(hours_per_day=args.hours_per_day, days_per_year=args.days_per_year)
    average = _average(args, active)
    output_tokens = _tokens(args, "output")
    prompt = _prompt(args, output_tokens)
    input_tokens = _tokens(args, "input") if prompt is None else prompt.input_tokens
    return _Answer(
        average=average,
        peak=_peak(args, average),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_input_percent=prompt.cached_input_percent(PrefixCaching(args.prefix_caching or "off")) if prompt else 0,
        prompt=prompt,
        per_day=daily_volume(
            average,
            hours_per_day=args.hours_per_day,
            requests_per_user=args.requests_per_user,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        ),
    )


def _tokens(args: argparse.Namespace, part: str) -> int | None:
    """The length of a part of a request, given in tokens or in words."""
    words: float | None = getattr(args, f"{part}_words")
    given: int | None = getattr(args, f"{part}_tokens")
    return given if words is None else tokens_from_words(words)


def _prompt(args: argparse.Namespace, output_tokens: int | None) -> Prompt | None:
    """The prompt by its parts, or None where none was given. Refuses parts that say too little or too much."""
    question, system, document = (_tokens(args, part) for part in _PARTS)
    parts = {
        "--question-tokens": question,
        "--system-prompt-tokens": system,
        "--document-tokens": document,
        "--documents": args.documents,
        "--turns": args.turns,
        "--prefix-caching": args.prefix_caching,
    }
    given = [flag for flag, value in parts.items() if value is not None]
    if not given:
        return None
    if _tokens(args, "input") is not None:
        raise InvalidInput(given[0], "is a part of the input, which --input-tokens gives whole", "remove one of them")
    if question is None:
        raise InvalidInput("--question-tokens", f"is missing beside {given[0]}", "add it (or --question-words)")
    if (document is None) != (args.documents is None):
        raise InvalidInput("--documents", "and --document-tokens go together", "give how many and how long")
    return prompt_of(
        question,
        system_tokens=system or 0.0,
        turns=1.0 if args.turns is None else args.turns,
        output_tokens=output_tokens,
        documents=args.documents or 0.0,
        tokens_per_document=document or 0.0,
    )


def _average(args: argparse.Namespace, active: ActiveTime) -> float:
    if args.calls_per_year is not None:
        return average_from_calls(args.calls_per_year, _requests_per_call(args), active)
    for name in ("requests_per_call", "minutes_per_call", "requests_per_minute"):
        if getattr(args, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(
                flag, "is about calls, and no calls were given", f"add --calls-per-year or remove {flag}"
            )
    if args.daily_active_users is not None:
        if args.requests_per_user is None:
            raise InvalidInput("--requests-per-user", "is missing", "say how many LLM requests one person makes a day")
        return average_from_users(args.daily_active_users, args.requests_per_user, active)
    average: float = args.average_requests_per_second
    return average


def _requests_per_call(args: argparse.Namespace) -> float:
    by_minutes = (args.minutes_per_call, args.requests_per_minute)
    given: float | None = args.requests_per_call
    if given is not None and by_minutes == (None, None):
        return given
    if given is None and None not in by_minutes:
        minutes, requests = by_minutes
        return float(minutes) * float(requests)
    raise InvalidInput(
        "--requests-per-call",
        "a call's requests are not clear",
        "give --requests-per-call, or both --minutes-per-call and --requests-per-minute",
    )


def _peak(args: argparse.Namespace, average: float) -> float | None:
    if args.peak_factor is not None:
        return peak_by_factor(average, args.peak_factor)
    if args.peak_percentile is not None:
        return peak_by_percentile(average, args.peak_percentile)
    peak: float | None = args.peak_requests_per_second
    if peak is not None and not average <= peak < float("inf"):
        raise InvalidInput(
            "--peak-requests-per-second", f"{peak:g} is not at least the average {average:g}", "raise it"
        )
    return peak


def _as_json(answer: _Answer) -> dict[str, object]:
    return {
        "averageRequestsPerSecond": answer.average,
        "peakRequestsPerSecond": answer.peak,
        "inputTokens": answer.input_tokens,
        "outputTokens": answer.output_tokens,
        "cachedInputPercent": answer.cached_input_percent,
        "perDay": {
            "requests": answer.per_day.requests,
            "users": answer.per_day.users,
            "inputTokens": answer.per_day.input_tokens,
            "outputTokens": answer.per_day.output_tokens,
        },
    }


def _as_yaml(answer: _Answer) -> str:
    """A snippet to paste below `spec:`; refused where the object would not be valid with it."""
    from firsttoken_operator.api.quantities import MAX_REQUESTS_PER_SECOND

    missing = (
        (answer.peak, "--peak-factor", "or --peak-percentile or --peak-requests-per-second"),
        (answer.input_tokens, "--input-tokens", "or --input-words"),
        (answer.output_tokens, "--output-tokens", "or --output-words"),
    )
    for value, flag, other in missing:
        if value is None:
            raise InvalidInput(flag, "spec.traffic is not complete without it", f"add {flag} {other}")
    assert answer.peak is not None
    if answer.peak > MAX_REQUESTS_PER_SECOND:
        raise InvalidInput(
            "peakRequestsPerSecond", f"{answer.peak:g} is above {MAX_REQUESTS_PER_SECOND}", "check the numbers given"
        )
    cached = f"  cachedInputPercent: {answer.cached_input_percent}\n" if answer.cached_input_percent else ""
    return (
        "traffic:\n"
        f"  inputTokens: {answer.input_tokens}\n"
        f"  outputTokens: {answer.output_tokens}\n"
        f"{cached}"
        f'  averageRequestsPerSecond: "{_rate(answer.average)}"\n'
        f'  peakRequestsPerSecond: "{_rate(answer.peak)}"\n'
    )


def _rate(requests_per_second: float) -> str:
    """A rate with the three decimals that the API allows, rounded up: never declare less than the real one."""
    rounded = Decimal(repr(requests_per_second)).quantize(Decimal("0.001"), rounding=ROUND_CEILING)
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".")


def _as_table(answer: _Answer) -> str:
    day, prompt = answer.per_day, answer.prompt
    rows = (
        ("average", answer.average, "requests/s", ",.2f"),
        ("peak", answer.peak, "requests/s", ",.2f"),
        ("input", answer.input_tokens, "tokens a request", ",.0f"),
        ("  system prompt", prompt and prompt.system_tokens, "tokens", ",.0f"),
        ("  history", prompt and prompt.history_tokens, "tokens, mean over the conversation", ",.0f"),
        ("  documents", prompt and prompt.document_tokens, "tokens", ",.0f"),
        ("  question", prompt and prompt.question_tokens, "tokens", ",.0f"),
        ("  cached", answer.cached_input_percent or None, "% of the input", ",.0f"),
        ("output", answer.output_tokens, "tokens a request", ",.0f"),
        ("requests a day", day.requests, "at the average", ",.0f"),
        ("people a day", day.users, "active users", ",.0f"),
        ("input a day", day.input_tokens, "tokens", ",.0f"),
        ("output a day", day.output_tokens, "tokens", ",.0f"),
    )
    shown = [(name, format(value, spec), unit) for name, value, unit, spec in rows if value is not None]
    names, values = (max(len(row[i]) for row in shown) for i in (0, 1))
    return "".join(f"{name:<{names}}  {value:>{values}}  {unit}\n" for name, value, unit in shown)
