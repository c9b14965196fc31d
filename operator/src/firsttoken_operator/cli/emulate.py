"""`firsttoken emulate`: an OpenAI-compatible server, or a whole fleet, whose timing follows the sizing's step model.

Reads the same YAML as `size`; which engine to emulate is what `size` answers. The work is in
`firsttoken_lab.emulate`; here are only the arguments and the translation.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from firsttoken_operator.cli.output import local_file
from firsttoken_operator.families import EMULATED, NIM1, TRITON, VLLM
from firsttoken_sizing.errors import InvalidInput

if TYPE_CHECKING:
    from firsttoken_lab.emulate.fleet import ReplicaSpec
    from firsttoken_lab.emulate.traffic import ArrivalSchedule
    from firsttoken_lab.emulate.truth import Lateness
    from firsttoken_operator.api.inference_deployment import InferenceDeployment
    from firsttoken_sizing.request import SizingRequest

RUNTIMES = {family.runtime: family for family in EMULATED}
ROUTINGS = {"random": "Random", "round-robin": "RoundRobin", "least-loaded": "LeastLoaded"}
EXIT_LATE = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "-f", "--file", type=local_file, required=True, help="YAML with the InferenceDeployment to emulate"
    )
    parser.add_argument("--name", help="which InferenceDeployment of the file, where it has several")
    parser.add_argument(
        "--runtime", choices=sorted(RUNTIMES), default=NIM1.runtime, help="whose metric names (default: nim)"
    )
    parser.add_argument(
        "--without-ttft", action="store_true", help="publish no TTFT, as a Triton before it is asked to"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: any free one (default: 0)")
    parser.add_argument("--port-file", type=local_file, help="write the port that was bound into this file")
    parser.add_argument("--seconds", type=_positive, help="end after this long (fleet: default 300; server: never)")
    parser.add_argument(
        "--shutdown-timeout", type=_rate, default=1.0, help="seconds for requests under way at the end (default: 1)"
    )
    parser.add_argument(
        "--wake-up-seconds",
        type=_rate,
        metavar="S",
        help="a server with vLLM's sleep mode (/sleep, /wake_up, /is_sleeping) that takes so long to wake up",
    )
    parser.add_argument("--max-prefill-tokens", type=int, help="prompt tokens an engine computes in one step")

    fleet = parser.add_argument_group("fleet", "engines for the ready pods of a Deployment, and the traffic to them")
    fleet.add_argument("--fleet", action="store_true", help="emulate a fleet in place of one server")
    fleet.add_argument("--kubeconfig", help="of the cluster (default: the usual places, or the pod's account)")
    fleet.add_argument("--namespace", help="namespace of the Deployment (default: the InferenceDeployment's)")
    fleet.add_argument("--deployment", help="Deployment to follow (default: targetRef, else the resource's name)")
    fleet.add_argument("--rate", type=_rate, help="requests a second (default: the declared average, else the peak)")
    fleet.add_argument(
        "--phase",
        type=_phase,
        action="append",
        default=[],
        metavar="SECOND:RATE",
        help="change the rate; repeatable",
    )
    fleet.add_argument("--trace", type=local_file, help="CSV arrival_s,input_tokens,output_tokens in place of --rate")
    fleet.add_argument("--length-cv", type=_rate, default=0.0, help="variation of generated lengths (default: 0)")
    fleet.add_argument("--routing", choices=sorted(ROUTINGS), help="default: traffic.routing")
    fleet.add_argument("--seed", type=int, default=1, help="seed of arrivals, lengths and routing (default: 1)")
    fleet.add_argument("--drain-seconds", type=_rate, default=30.0, help="grace of a terminating pod (default: 30)")
    fleet.add_argument("--gateway-timeout", type=_rate, default=30.0, help="wait for a ready replica (default: 30)")
    fleet.add_argument("--start-when-ready", type=int, default=0, help="traffic waits for so many replicas")
    fleet.add_argument("--truth", type=local_file, help="write what happened to every request here (JSON lines)")
    fleet.add_argument(
        "--real",
        nargs=2,
        metavar=("URL", "METRICS_URL"),
        help="a real server is one of the replicas: the /generate_stream of a Triton's model, or vLLM's"
        " /v1/completions, and its metrics page",
    )
    fleet.add_argument(
        "--real-share",
        type=_share,
        default=1.0,
        metavar="SHARE",
        help="share of a replica's requests, 0 to 1, that goes to the real one, as to a canary (default: 1)",
    )
    fleet.add_argument(
        "--allow-control", action="store_true", help="serve /load and /fault, for tests; loopback addresses only"
    )


def run(args: argparse.Namespace) -> int:
    """Emulate until the end of the run. Exit status 1 if the emulation could not keep up with its own clock."""
    if args.allow_control and not _is_loopback(args.host):
        raise InvalidInput("--allow-control", f"{args.host} is not a loopback address", "use --host 127.0.0.1")
    if args.real:
        _check_real(args.real[0], args.runtime)
    if args.wake_up_seconds is not None and (args.runtime != VLLM.runtime or args.fleet):
        raise InvalidInput("--wake-up-seconds", "only one server of vLLM sleeps", "add --runtime vllm, without --fleet")
    deployment, question = _question(args)
    spec = replica_spec(question, runtime=args.runtime, max_prefill_tokens=args.max_prefill_tokens)
    spec = replace(spec, tells_ttft=not args.without_ttft)
    return _run_fleet(args, deployment, question, spec) if args.fleet else _run_server(args, question, spec)


def _check_real(url: str, runtime: str) -> None:
    """Raise `InvalidInput` for a server of another kind than the emulated ones: that is read as a rollout."""
    from firsttoken_lab.emulate.real import COMPLETIONS, GENERATE_STREAM

    kinds = {TRITON.runtime: GENERATE_STREAM, VLLM.runtime: COMPLETIONS}
    if runtime not in kinds:
        problem = f"a real server beside emulated ones of {runtime} is read as a rollout from one to the other"
        raise InvalidInput("--real", problem, f"use --runtime {' or '.join(sorted(kinds))}")
    if not url.endswith(kinds[runtime]):
        raise InvalidInput("--real", f"{url} is not where a {runtime} streams", f"end it with {kinds[runtime]}")


def replica_spec(question: SizingRequest, *, runtime: str, max_prefill_tokens: int | None = None) -> ReplicaSpec:
    """Describe one replica of the sized configuration.

    Raises:
        InvalidInput: the question cannot be sized, or nothing is known about the configuration's step times.

    """
    from firsttoken_lab.emulate.fleet import ReplicaSpec
    from firsttoken_sizing.catalog import resolve_model
    from firsttoken_sizing.optimize import size
    from firsttoken_sizing.simulation.subject import subject_of

    sizing = size(question, pools_apart=False)
    key = sizing.configuration
    subject = sizing.reason if key is None else subject_of(question, key, sizing.batching)
    if isinstance(subject, str):
        raise InvalidInput("spec", subject, "make the sizing feasible first (`firsttoken size`)")
    settings = subject.settings
    if max_prefill_tokens is not None:
        scheduler = replace(settings.scheduler, tokens_per_step=max_prefill_tokens)
        settings = replace(settings, scheduler=scheduler)
    return ReplicaSpec(
        model=subject.step,
        model_name=question.model,
        family=RUNTIMES[runtime],
        settings=settings,
        max_model_tokens=(question.architecture or resolve_model(question.model)).max_context_tokens,
        cached_input_percent=subject.lengths.cached_input_percent,
    )


def _question(args: argparse.Namespace) -> tuple[InferenceDeployment, SizingRequest]:
    from firsttoken_operator.api.convert import sizing_request
    from firsttoken_operator.api.documents import load_documents

    documents = load_documents(args.file)
    found = [item for item in documents.deployments if args.name in (None, item.metadata.name)]
    if len(found) != 1:
        names = ", ".join(item.metadata.name for item in documents.deployments) or "none"
        raise InvalidInput("--name", f"{args.file} has these InferenceDeployments: {names}", "name exactly one of them")
    return found[0], sizing_request(found[0], documents.pools, documents.benchmarks)


def _run_server(args: argparse.Namespace, question: SizingRequest, spec: ReplicaSpec) -> int:
    from firsttoken_lab.emulate.server import EmulatedServer, run_server

    async def served() -> int:
        server = EmulatedServer(spec, max(1, round(question.workload.output_tokens)), args.wake_up_seconds)
        await run_server(server, args.host, args.port, args.port_file, args.seconds, args.shutdown_timeout)
        return _verdict(server.lateness)

    return asyncio.run(served())


def _run_fleet(
    args: argparse.Namespace, deployment: InferenceDeployment, question: SizingRequest, spec: ReplicaSpec
) -> int:
    from firsttoken_lab.emulate.fleet import Fleet, GatewayPolicy
    from firsttoken_lab.emulate.real import RealServer
    from firsttoken_lab.emulate.service import run_fleet
    from firsttoken_sizing.workload import Routing

    target = deployment.spec.target_ref.name if deployment.spec.target_ref else deployment.metadata.name
    gateway = GatewayPolicy(
        routing=Routing(ROUTINGS[args.routing]) if args.routing else question.workload.routing,
        timeout_seconds=args.gateway_timeout,
        drain_seconds=args.drain_seconds,
        seed=args.seed,
        real_share=args.real_share,
    )
    real = RealServer(*args.real) if args.real else None
    fleet = Fleet(spec, _traffic(args, question), question.sla, gateway, clock=time.monotonic, real=real)

    async def played() -> int:
        async with real or nullcontext():
            await run_fleet(
                fleet,
                args.namespace or deployment.metadata.namespace,
                args.deployment or target,
                kubeconfig=args.kubeconfig,
                host=args.host,
                port=args.port,
                port_file=args.port_file,
                allow_control=args.allow_control,
                start_when_ready=args.start_when_ready,
            )
        # NB: inside the loop, which still takes SIGTERM: one that comes as the traffic ends by itself costs no result.
        if args.truth is not None:
            args.truth.write_text("".join(fleet.export()))
        truth = fleet.truth
        inside = truth.attainment_percent
        share = "no request ended" if inside is None else f"{inside:.2f} % inside the SLA"
        print(f"{len(truth.records)} requests, {truth.failed} failed, {share}", flush=True)
        return _verdict(fleet.lateness)

    return asyncio.run(played())


def _traffic(args: argparse.Namespace, question: SizingRequest) -> ArrivalSchedule:
    from firsttoken_lab.emulate.traffic import Lengths, Phase, PoissonTraffic, trace_traffic

    if args.trace is not None:
        return trace_traffic(args.trace, args.seconds)
    workload = question.workload
    rate = args.rate
    if rate is None:
        rate = workload.average_requests_per_second or workload.peak_requests_per_second
    if rate is None:
        raise InvalidInput("--rate", "the file declares requests in flight, not a rate", "give --rate or --trace")
    return PoissonTraffic(
        [Phase(0.0, rate), *(Phase(*phase) for phase in args.phase)],
        args.seconds or 300.0,
        Lengths(workload.input_tokens, workload.output_tokens, args.length_cv),
        args.seed,
    )


def _verdict(lateness: Lateness) -> int:
    line = f"emulation lateness p99 {lateness.percentile(99) * 1000:.0f} ms"
    if lateness.acceptable:
        print(line, flush=True)
        return 0
    print(f"{line}: above the limit of 500 ms, so this run says nothing; give the machine more CPU", file=sys.stderr)
    return EXIT_LATE


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _positive(text: str) -> float:
    value = _rate(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number >= 0")
    return value


def _share(text: str) -> float:
    value = _rate(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share, 0 to 1")
    return value


def _phase(text: str) -> tuple[float, float]:
    second, colon, rate = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SECOND:RATE, such as 120:200")
    return _rate(second), _rate(rate)
