"""`firsttoken warm`: what keeps the warm GPUs of pools, as YAML for kubectl apply or a GitOps repository."""

from __future__ import annotations

import argparse

from firsttoken_operator.cli.output import add_file, emit, local_file
from firsttoken_sizing.errors import InvalidInput

NAMESPACE = "firsttoken-system"
IMAGE = "registry.k8s.io/pause:3.10"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `warm`."""
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        type=local_file,
        metavar="FILE",
        help="YAML with GPUPools, or a folder of such files; - reads standard input; may be repeated",
    )
    add_file(parser)
    parser.add_argument("-n", "--namespace", default=NAMESPACE, help=f"where its pods are (default: {NAMESPACE})")
    parser.add_argument("--image", default=IMAGE, help=f"image that does nothing for ever (default: {IMAGE})")


def run(args: argparse.Namespace) -> int:
    """Write the manifests. Raises `InvalidInput` where no pool declares warm GPUs."""
    import yaml

    from firsttoken_operator.act.warm import warm_manifests
    from firsttoken_operator.api.documents import load_documents

    made = warm_manifests(load_documents(*args.filename).pools.values(), args.namespace, args.image)
    if not made:
        raise InvalidInput("FILE", "no GPUPool declares spec.warmGPUs", "set it in the pool that is to keep GPUs ready")
    emit(yaml.safe_dump_all(made, sort_keys=False, explicit_start=True).encode(), args.out)
    return 0
