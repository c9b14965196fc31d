"""`firsttoken simulate`: discrete-event simulation of what `firsttoken size` answers, one replica or the whole fleet.

Exit status 0: simulated, whether or not the SLA was kept (the output says so); 3: there is no configuration to
simulate, because none holds the model or meets the SLA.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import replace

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli.output import add_output, emit, emit_tables, local_file, write
from firsttoken_operator.cli.question import (
    Sources,
    add_files,
    add_word,
    check_number,
    check_seed,
    only_one,
    read,
    tell_if_slow,
    title,
)
from firsttoken_operator.cli.size import INFEASIBLE
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize import size
from firsttoken_sizing.report.simulation import Simulated, requests_csv, simulation_json, simulation_table, verdict
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.load import Process, load_of_size, simulate_load
from firsttoken_sizing.simulation.outcome import Outcome, simulate, summarize
from firsttoken_sizing.simulation.requests import Requests, read_trace
from firsttoken_sizing.simulation.subject import Subject, subject_of
from firsttoken_sizing.workload import Batching

_SECONDS = 600.0
_MOST_REPLICAS, _MOST_CONCURRENCY = 10_000, 1_000_000
_ROUNDS_SHOWN = 3
"""The picture shows so many times the mean end-to-end latency."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken simulate`."""
    add_files(parser)
    add_word(parser, "--batching", Batching, "default: as sized")
    add_word(parser, "--arrivals", Process, "default: as sized (spec.sizing.arrivals)")
    parser.add_argument(
        "--trace",
        type=local_file,
        metavar="FILE",
        help="requests arrival_s,input_tokens,output_tokens (CSV, plain or gzip)",
    )
    parser.add_argument("--rate", type=float, metavar="R", help="requests/s of the whole fleet; default: the peak")
    parser.add_argument(
        "--gap-variation", type=float, metavar="CV", help="of bursty arrivals; 1 is Poisson; default: 2"
    )
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="requests outstanding in a closed loop, whole fleet"
    )
    parser.add_argument("--replicas", type=int, metavar="N", help="default: as sized")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help=f"simulated time; default: {_SECONDS:g}, or the whole trace"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    add_output(parser)
    parser.add_argument(
        "--requests", type=local_file, metavar="FILE.csv", help="also write every request as a line of CSV"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate every InferenceDeployment of the file."""
    _check(args)
    sources = read(args)
    deployments = sources.documents.deployments
    if args.requests is not None or args.output == "html":
        only_one(args, deployments, "--requests" if args.requests is not None else "--output")
    if args.output == "html":
        # NB: without plotly this raises what the command line explains, before the minutes that a simulation may take.
        importlib.import_module("firsttoken_sizing.report.simulation_figure")
    tell_if_slow("--seconds")
    done = []
    for deployment in deployments:
        simulated = _simulate(deployment, sources, args)
        if isinstance(simulated, str):
            print(f"firsttoken: {title(deployment)}: {simulated}", file=sys.stderr)
        else:
            done.append(simulated)
    if args.requests is not None and done:
        write(requests_csv(done[0].outcome).encode(), args.requests, "--requests")
    if done:
        _print(done, args)
    return 0 if len(done) == len(deployments) else INFEASIBLE


def _check(args: argparse.Namespace) -> None:
    """Refuse numbers outside their range, and arguments that say nothing together."""
    check_number("--rate", args.rate)
    check_number("--seconds", args.seconds)
    check_number("--gap-variation", args.gap_variation, 100.0)
    for argument, value, most in (
        ("--replicas", args.replicas, _MOST_REPLICAS),
        ("--concurrency", args.concurrency, _MOST_CONCURRENCY),
    ):
        if value is not None and not 1 <= value <= most:
            raise InvalidInput(argument, f"{value} is out of range", f"use a whole number from 1 to {most}")
    check_seed(args.seed)
    if args.trace is not None:
        for argument, value in (
            ("--arrivals", args.arrivals),
            ("--rate", args.rate),
            ("--concurrency", args.concurrency),
        ):
            if value is not None:
                raise InvalidInput(argument, "has no meaning with --trace", "leave one of them out")
    if args.gap_variation is not None and args.arrivals != Process.BURSTY:
        raise InvalidInput("--gap-variation", "is for bursty arrivals", "add --arrivals Bursty")
    if args.rate is not None and args.arrivals == Process.CLOSED:
        raise InvalidInput("--rate", "has no meaning in a closed loop", "use --concurrency")
    if args.concurrency is not None and args.arrivals in (Process.POISSON, Process.BURSTY):
        raise InvalidInput("--concurrency", f"has no meaning with --arrivals {args.arrivals}", "use --rate")
    if args.concurrency is not None and args.rate is not None:
        raise InvalidInput("--concurrency", "has no meaning with --rate", "leave one of them out")


def _simulate(deployment: InferenceDeployment, sources: Sources, args: argparse.Namespace) -> Simulated | str:
    """One deployment, or the reason why there is nothing to simulate."""
    request = sources.request(deployment, None, None)
    sizing = size(request, pools_apart=False)
    if sizing.configuration is None or not (sizing.feasible or args.replicas):
        return sizing.reason if sizing.configuration is None else f"{sizing.reason} (or give --replicas)"
    batching = args.batching or sizing.batching
    subject = subject_of(request, sizing.configuration, batching)
    if isinstance(subject, str):
        return subject
    settings = replace(subject.settings, replicas=args.replicas or sizing.replicas)
    if args.trace is not None:
        outcome, settings, window = _replay(args, request, subject, settings)
        arrivals, words = "trace", f"trace {args.trace.name}"
    else:
        load = load_of_size(
            sizing,
            args.arrivals,
            rate=args.rate,
            concurrency=args.concurrency,
            seconds=args.seconds or _SECONDS,
            gap_variation=args.gap_variation,
            seed=args.seed,
        )
        outcome, settings = simulate_load(subject, settings, load)
        window, arrivals, words = load.window, load.process.value, str(load)
    return Simulated(
        namespace=deployment.metadata.namespace or "",
        name=deployment.metadata.name,
        subject=subject,
        settings=settings,
        arrivals=arrivals,
        load=words,
        seed=args.seed,
        sla=request.sla,
        outcome=outcome,
        summary=summarize(outcome, *window, settings.kv_cache_tokens),
    )


def _replay(
    args: argparse.Namespace, request: SizingRequest, subject: Subject, settings: Settings
) -> tuple[Outcome, Settings, tuple[float, float]]:
    """The requests of a trace, of which `--seconds` is the beginning; all of them are measured."""
    cached = subject.lengths.cached_input_percent
    requests = read_trace(args.trace, cached_input_percent=cached, field="--trace", until_s=args.seconds)
    longest = int((requests.input_tokens + requests.output_tokens).max())
    if settings.kv_cache_tokens is not None and longest > settings.kv_cache_tokens:
        raise InvalidInput(
            "--trace",
            f"{args.trace} has a request of {longest} tokens, and the KV cache of a replica holds"
            f" {settings.kv_cache_tokens}",
            "leave such requests out, or use more GPUs a replica (hardware.tensorParallel)",
        )
    _tell_of_too_long(request, requests)
    settings = replace(settings, seed=args.seed)
    outcome = simulate(subject.step, requests, settings)
    return outcome, settings, (0.0, float(outcome.finish_s.max()) * (1 + 1e-9))


def _tell_of_too_long(request: SizingRequest, requests: Requests) -> None:
    """Say on stderr how many requests of a trace an engine would refuse; traces of other models have such."""
    model = request.architecture or resolve_model(request.model)
    too_long = int((requests.input_tokens + requests.output_tokens > model.max_context_tokens).sum())
    if too_long:
        print(
            f"firsttoken: --trace: {too_long} of {len(requests)} requests exceed the context window of {model.name},"
            f" {model.max_context_tokens} tokens; they are simulated, where an engine refuses them: leave them out",
            file=sys.stderr,
        )


def _print(done: list[Simulated], args: argparse.Namespace) -> None:
    if args.output == "html":
        emit(_page(done[0]).encode(), args.out)
    elif args.output == "json":
        documents = [simulation_json(simulated) for simulated in done]
        text = json.dumps(documents[0] if len(documents) == 1 else documents, indent=2) + "\n"
        emit(text.encode(), args.out)
    else:
        emit_tables(map(simulation_table, done), args.out)


def _page(simulated: Simulated) -> str:
    """The batch of the first replica over time; beside it the same requests in the other way of batching."""
    from firsttoken_sizing.report.simulation_figure import BatchPanel, batch_page

    settings, outcome, summary = simulated.settings, simulated.outcome, simulated.summary
    is_static = settings.batching is Batching.STATIC
    other = replace(settings, batching=Batching.IN_FLIGHT if is_static else Batching.STATIC)
    beside = simulate(simulated.subject.step, outcome.requests, other)
    panels = [
        BatchPanel(f"{how.batching.value} batching", what) for how, what in ((settings, outcome), (other, beside))
    ]
    start = float(outcome.arrival_s[outcome.between(settings.count_from_s)][0])
    span = _ROUNDS_SHOWN * (summary.end_to_end.mean or 0.0) / 1000
    notes = [
        "One row is a batch slot of replica 0; requests come at the same times in both pictures.",
        "Static batching: a batch starts when the one before is done, and runs until its longest request is.",
        "In-flight batching: requests join and leave at every step.",
    ]
    return batch_page(f"{simulated.title}: {simulated.load}", panels, start, start + span, notes, verdict(simulated))
