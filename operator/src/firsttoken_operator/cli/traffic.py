"""`firsttoken traffic`: from what a business knows to `spec.traffic`. The arithmetic is `firsttoken_sizing.traffic`."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firsttoken_sizing.traffic import ActiveTime, DailyVolume


@dataclass(frozen=True, slots=True)
class _Answer:
    """Rates in requests a second, lengths in tokens; None where nobody said."""

    average: float
    peak: float | None
    input_tokens: int | None
    output_tokens: int | None
    per_day: DailyVolume


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `traffic`."""
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
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


def run(args: argparse.Namespace) -> int:
    """Compute and print. Raises `InvalidInput` for numbers that make no sense together."""
    answer = _answer(args)
    if args.output == "json":
        print(json.dumps(_as_json(answer), indent=2))
    elif args.output == "yaml":
        print(_as_yaml(answer), end="")
    else:
        print(_as_table(answer), end="")
    return 0


def _answer(args: argparse.Namespace) -> _Answer:
    from firsttoken_sizing.traffic import ActiveTime, daily_volume, tokens_from_words

    active = ActiveTime(hours_per_day=args.hours_per_day, days_per_year=args.days_per_year)
    average = _average(args, active)
    tokens = {
        side: getattr(args, f"{side}_tokens")
        if (words := getattr(args, f"{side}_words")) is None
        else tokens_from_words(words)
        for side in ("input", "output")
    }
    return _Answer(
        average=average,
        peak=_peak(args, average),
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
        per_day=daily_volume(
            average,
            hours_per_day=args.hours_per_day,
            requests_per_user=args.requests_per_user,
            input_tokens=tokens["input"],
            output_tokens=tokens["output"],
        ),
    )


def _average(args: argparse.Namespace, active: ActiveTime) -> float:
    from firsttoken_sizing.errors import InvalidInput
    from firsttoken_sizing.traffic import average_from_calls, average_from_users

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
    from firsttoken_sizing.errors import InvalidInput

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
    from firsttoken_sizing.errors import InvalidInput
    from firsttoken_sizing.traffic import peak_by_factor, peak_by_percentile

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
        "perDay": {
            "requests": answer.per_day.requests,
            "users": answer.per_day.users,
            "inputTokens": answer.per_day.input_tokens,
            "outputTokens": answer.per_day.output_tokens,
        },
    }


def _as_yaml(answer: _Answer) -> str:
    """A snippet to paste below `spec:`; refused where the object would not be valid with it."""
    from firsttoken_operator.api.traffic import MAX_REQUESTS_PER_SECOND
    from firsttoken_sizing.errors import InvalidInput

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
    return (
        "traffic:\n"
        f"  inputTokens: {answer.input_tokens}\n"
        f"  outputTokens: {answer.output_tokens}\n"
        f'  averageRequestsPerSecond: "{_rate(answer.average)}"\n'
        f'  peakRequestsPerSecond: "{_rate(answer.peak)}"\n'
    )


def _rate(requests_per_second: float) -> str:
    """A rate with the three decimals that the API allows, rounded up: never declare less than the real one."""
    rounded = Decimal(repr(requests_per_second)).quantize(Decimal("0.001"), rounding=ROUND_CEILING)
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".")


def _as_table(answer: _Answer) -> str:
    day = answer.per_day
    rows = (
        ("average", answer.average, "requests/s", ",.2f"),
        ("peak", answer.peak, "requests/s", ",.2f"),
        ("input", answer.input_tokens, "tokens a request", ",.0f"),
        ("output", answer.output_tokens, "tokens a request", ",.0f"),
        ("requests a day", day.requests, "at the average", ",.0f"),
        ("people a day", day.users, "active users", ",.0f"),
        ("input a day", day.input_tokens, "tokens", ",.0f"),
        ("output a day", day.output_tokens, "tokens", ",.0f"),
    )
    shown = [(name, format(value, spec), unit) for name, value, unit, spec in rows if value is not None]
    names, values = (max(len(row[i]) for row in shown) for i in (0, 1))
    return "".join(f"{name:<{names}}  {value:>{values}}  {unit}\n" for name, value, unit in shown)
