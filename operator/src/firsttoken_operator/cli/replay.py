"""`firsttoken replay`: recorded traffic against scaling policies, request by request, on the fleet that `size` answers.

Exit status 0: replayed, whatever the policies reached; 3: there is nothing to replay with, because no configuration
meets the SLA.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from dataclasses import replace
from datetime import datetime

from firsttoken_lab.replay.compare import NAMES, Comparison, compare, scene_of
from firsttoken_lab.replay.replicas import WAKE_UP, ColdStart
from firsttoken_lab.replay.report import comparison_json, comparison_table
from firsttoken_lab.replay.setting import setting_of
from firsttoken_lab.replay.traffic import Shaping, Traffic, made_of, read_traffic, sample_traffic
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli.output import add_output, emit, emit_tables, local_file
from firsttoken_operator.cli.question import add_files, check_number, check_seed, only_one, read, tell_if_slow, title
from firsttoken_operator.cli.size import INFEASIBLE
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths

_COLD_START_SECONDS = 180.0
_CLAIRVOYANT_PLAIN_SECONDS, _POLICY_PLAIN_SECONDS = 0.01, 0.0015
"""Seconds a request in plain Python: of the reference, which learns and plays again, and of a policy."""
_LONGEST_COLD_START_SECONDS = 86400.0
_MOST_STANDBY = 1000
_SINCE = "7d"
_SECONDS_OF = {"m": 60, "h": 3600, "d": 86400}
_LONGEST_SINCE_SECONDS = 90 * 86400
_START_YEARS = range(1971, 2200)
_START_FIX = "write it as 2026-11-16T00:00Z"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken replay`."""
    add_files(parser)
    parser.add_argument(
        "--trace",
        type=local_file,
        metavar="FILE",
        help="requests arrival_s,input_tokens,output_tokens or a series t,rps[,mean_in,mean_out] (CSV, plain or gzip);"
        " default: a made-up hour whose busiest minute is the declared peak",
    )
    parser.add_argument(
        "--prometheus", metavar="URL", help="instead of a trace: the traffic that the deployment had, by its metrics"
    )
    parser.add_argument("--since", metavar="TIME", help=f"how far back: 90m, 36h, 7d; default: {_SINCE}")
    parser.add_argument(
        "--start",
        metavar="TIME",
        help="when the trace begins, as 2026-11-16T00:00Z: for traffic.schedule and days of the week; "
        "default: a Monday, 00:00 UTC",
    )
    parser.add_argument(
        "--policy", action="append", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}; default: all"
    )
    parser.add_argument(
        "--rate-scale", type=float, default=1.0, metavar="X", help="multiply rates, or keep this share of the requests"
    )
    parser.add_argument(
        "--length-cv",
        type=float,
        default=1.0,
        metavar="CV",
        help="coefficient of variation of the lengths that are made for a series; default: 1",
    )
    parser.add_argument(
        "--cold-start-seconds",
        type=float,
        default=_COLD_START_SECONDS,
        metavar="S",
        help=f"from a replica's creation until it serves, give or take 20 %%; default: {_COLD_START_SECONDS:g}",
    )
    parser.add_argument(
        "--failures-per-day", type=float, default=0.0, metavar="N", help="how often a replica dies; default: 0"
    )
    parser.add_argument(
        "--standby",
        type=int,
        default=0,
        metavar="N",
        help="replicas that firsttoken keeps started and asleep beside those that answer; default: 0",
    )
    parser.add_argument(
        "--wake-up-seconds",
        type=float,
        default=WAKE_UP.seconds,
        metavar="S",
        help=f"from the call that wakes one until it serves, give or take 20 %%; default: {WAKE_UP.seconds:g}",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Replay one trace against the policies."""
    _check(args)
    if args.output == "html":
        # NB: without plotly this raises what the command line explains, before the minutes that a replay may take.
        importlib.import_module("firsttoken_sizing.report.plotly_page")
    sources = read(args)
    deployments = sources.documents.deployments
    only_one(args, deployments, "--filename")
    (deployment,) = deployments
    setting = setting_of(deployment, sources.documents.pools, sources.benchmarks, args.standby)
    if isinstance(setting, str):
        print(f"firsttoken: {title(deployment)}: {setting}", file=sys.stderr)
        return INFEASIBLE
    shaping = Shaping(args.rate_scale, args.length_cv, setting.longest_tokens, args.seed)
    lengths = setting.subject.lengths
    if args.prometheus is not None:
        traffic = _history(args, deployment, lengths, shaping)
    elif args.trace is not None:
        traffic = read_traffic(args.trace, lengths, shaping)
    else:
        traffic = sample_traffic(setting.peak_requests_per_second, lengths, shaping)
    if args.start is not None:
        traffic = replace(traffic, start_epoch_seconds=_epoch_seconds(args.start))
    policies = len(args.policy or NAMES)
    seconds = len(traffic.requests) * (_CLAIRVOYANT_PLAIN_SECONDS + policies * _POLICY_PLAIN_SECONDS)
    # NB: two digits are what such a guess is worth, and what a person types.
    tell_if_slow(f"--rate-scale, such as {min(1.0, 60 * args.rate_scale / seconds):.1g}", seconds)
    _progress(f"{traffic.name}: {len(traffic.requests)} requests, {traffic.left_out} left out that no replica holds")
    scene = scene_of(traffic, setting, args.cold_start_seconds, args.seed, args.failures_per_day)
    scene = replace(scene, stage=replace(scene.stage, wake_up=ColdStart(args.wake_up_seconds)))
    _print(title(deployment), compare(scene, args.policy, _progress), args)
    return 0


def _history(args: argparse.Namespace, deployment: InferenceDeployment, lengths: Lengths, shaping: Shaping) -> Traffic:
    """Traffic that Prometheus knows of the deployment, and requests made from it."""
    import time

    from firsttoken_lab.replay.history import FIELD, read_history

    # NB: imported here, because it needs the packages of the operator and a trace does not.
    from firsttoken_operator.observe.targets import beginning_of_pods

    since = args.since or _SINCE
    namespace = deployment.metadata.namespace or "default"
    name = beginning_of_pods(deployment)
    series = read_history(args.prometheus, namespace, name, _seconds(since), time.time(), _progress)
    return made_of(series, f"prometheus {since}", lengths, shaping, FIELD)


def _seconds(since: str) -> float:
    found = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", since)
    seconds = int(found[1]) * _SECONDS_OF[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_SINCE_SECONDS:
        raise InvalidInput("--since", f"{since!r} is no duration", "use 90m, 36h or 7d, at most 90d")
    return float(seconds)


def _epoch_seconds(start: str) -> float:
    # NB: a time without a zone would be another moment on every machine.
    try:
        at = datetime.fromisoformat(start)
    except ValueError:
        raise InvalidInput("--start", f"{start!r} is no time", _START_FIX) from None
    if at.tzinfo is None or at.year not in _START_YEARS:
        problem = "has no time zone" if at.tzinfo is None else "is in no year that clocks are known of"
        raise InvalidInput("--start", f"{start!r} {problem}", _START_FIX)
    return at.timestamp()


def _check(args: argparse.Namespace) -> None:
    if args.trace is not None and args.prometheus is not None:
        raise InvalidInput("--trace", "is one of two ways to say which traffic", "give --trace or --prometheus")
    if args.since is not None and args.prometheus is None:
        raise InvalidInput("--since", "has no meaning without --prometheus", "leave it out")
    if args.start is not None and args.prometheus is not None:
        raise InvalidInput("--start", "is known of what --prometheus tells", "leave it out")
    check_number("--rate-scale", args.rate_scale)
    check_number("--length-cv", args.length_cv, 10.0, or_zero=True)
    check_number("--cold-start-seconds", args.cold_start_seconds, _LONGEST_COLD_START_SECONDS, or_zero=True)
    check_number("--failures-per-day", args.failures_per_day, 1000.0, or_zero=True)
    check_number("--standby", args.standby, _MOST_STANDBY, or_zero=True)
    check_number("--wake-up-seconds", args.wake_up_seconds, _LONGEST_COLD_START_SECONDS)
    check_seed(args.seed)


def _progress(message: str) -> None:
    print(f"firsttoken: {message}", file=sys.stderr, flush=True)


def _print(name: str, comparison: Comparison, args: argparse.Namespace) -> None:
    if args.output == "html":
        from firsttoken_lab.replay.picture import comparison_figure
        from firsttoken_sizing.report.pictures import PictureFormat, draw

        emit(draw(comparison_figure(name, comparison), PictureFormat.HTML), args.out)
    elif args.output == "json":
        emit((json.dumps(comparison_json(comparison, args.seed), indent=2) + "\n").encode(), args.out)
    else:
        emit_tables([comparison_table(name, comparison)], args.out)
