"""`firsttoken operator`: runs the operator until it is told to stop.

Exit status: 0 after SIGTERM or SIGINT; 1 when a part of it died (its supervisor starts it again), or when one that
`--check` asks does not answer; 2 for settings that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any

from firsttoken_operator.cli.output import local_file


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments. Flags win over the configuration file."""
    parser.add_argument(
        "--config", type=local_file, metavar="FILE", help="YAML with the settings, as the chart renders it"
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        default=os.environ.get("KUBECONFIG"),
        help="default: $KUBECONFIG, else the pod's service account",
    )
    parser.add_argument("--prometheus-url", metavar="URL", help="the Prometheus called `default`")
    parser.add_argument("--tick-seconds", type=float, metavar="S", help="interval of the control loop (default 15)")
    parser.add_argument("--scrape-interval-seconds", type=float, metavar="S", help="of the inference pods (default 15)")
    parser.add_argument("--rate-window-seconds", type=float, metavar="S", help="default 60, at least four scrapes")
    parser.add_argument(
        "--time-scale",
        type=float,
        metavar="N",
        help="divide every duration of the control loop by N, for demonstrations; never a latency (default 1)",
    )
    parser.add_argument("--namespace", action="append", dest="namespaces", metavar="NAME", help="watch only this one")
    parser.add_argument("--host", help="address of /metrics, /healthz and /readyz (default 0.0.0.0)")
    parser.add_argument("--port", type=int, help="port of the same; 0 takes a free one (default 8080)")
    parser.add_argument(
        "--advisory",
        action="store_true",
        default=None,
        help="dry run: every resource is treated as Advisory; nothing is scaled and nothing rendered",
    )
    parser.add_argument(
        "--render",
        action="store_true",
        default=None,
        help="render spec.runtime into Deployments and what belongs to them (needs the rights for it)",
    )
    parser.add_argument(
        "--leader-elect",
        action="store_true",
        default=None,
        help="write only while holding a Lease, so that several operators can stand by",
    )
    parser.add_argument("--lease-name", metavar="NAME", help="of that Lease (default firsttoken)")
    parser.add_argument(
        "--lease-namespace",
        metavar="NAME",
        default=os.environ.get("POD_NAMESPACE"),
        help="its namespace (default $POD_NAMESPACE)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="read the configuration, ask the API server and each Prometheus once, say what is wrong, and end",
    )
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), help="default INFO")


def run(args: argparse.Namespace) -> int:
    """Run the operator in this process."""
    # NB: imported here, so that `firsttoken operator --help` needs none of the packages of the extra.
    from kubernetes.aio.config import ConfigException

    from firsttoken_operator.run import check, heap, logs
    from firsttoken_operator.run.process import run_operator
    from firsttoken_operator.run.settings import SettingsError, load

    try:
        settings = load(args.config, overrides(args))
        if args.check:
            lines, answered = asyncio.run(check.ask_all(settings, args.kubeconfig))
            print("the configuration is usable", *lines, sep="\n")
            return 0 if answered else 1
        logs.configure(settings.log_level)
        heap.tune()
        return asyncio.run(run_operator(settings, args.kubeconfig))
    except SettingsError as error:
        print(f"firsttoken operator: {error}", file=sys.stderr)
    except ConfigException as error:
        print(f"firsttoken operator: no cluster to work on: {error}; set --kubeconfig", file=sys.stderr)
    return 2


def overrides(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that were given, as keys of the configuration file."""
    given = {
        "tickSeconds": args.tick_seconds,
        "scrapeIntervalSeconds": args.scrape_interval_seconds,
        "rateWindowSeconds": args.rate_window_seconds,
        "timeScale": args.time_scale,
        "namespaces": args.namespaces,
        "host": args.host,
        "port": args.port,
        "advisory": args.advisory,
        "render": args.render,
        "leaderElect": args.leader_elect,
        "leaseName": args.lease_name,
        "leaseNamespace": args.lease_namespace,
        "logLevel": args.log_level,
        "prometheus": {"default": {"url": args.prometheus_url}} if args.prometheus_url else None,
    }
    return {key: value for key, value in given.items() if value is not None}
