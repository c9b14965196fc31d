"""`firsttoken import`: benchmark results of other tools to BenchmarkProfile YAML, on stdout or in a file."""

from __future__ import annotations

import argparse
import sys

from firsttoken_operator.cli.output import add_file, emit, local_file
from firsttoken_sizing.errors import InvalidInput


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `import`."""
    parser.add_argument(
        "files", nargs="+", type=local_file, metavar="FILE", help="result of a benchmark tool (JSON or CSV)"
    )
    add_file(parser)
    declared = parser.add_argument_group(
        "what the files do not say", "Most tools record neither GPU nor parallelism nor precision; nothing is guessed."
    )
    declared.add_argument("--model", metavar="NAME", help="model that was measured, in place of the name in the file")
    declared.add_argument("--gpu", metavar="NAME", help="such as H100-SXM-80GB, or the GPU's node label")
    declared.add_argument("--precision", metavar="NAME", help="such as FP8 or BF16")
    declared.add_argument("--tensor-parallel", type=int, metavar="GPUS", help="GPUs that share every layer")
    declared.add_argument("--pipeline-parallel", type=int, metavar="STAGES", help="stages of layers (default: 1)")
    declared.add_argument(
        "--attention-data-parallel",
        type=int,
        metavar="GROUPS",
        help="groups of GPUs with an own attention (default: 1)",
    )
    declared.add_argument("--engine", metavar="NAME", help="such as TensorRT-LLM or vLLM")
    declared.add_argument("--engine-version", metavar="VERSION", help="its version")
    settings = parser.add_argument_group("settings of the engine, where they were not those that it has as installed")
    settings.add_argument("--max-batch-size", type=int, metavar="SEQUENCES", help="sequences that ran at once")
    settings.add_argument("--max-batched-tokens", type=int, metavar="TOKENS", help="tokens of a step")
    settings.add_argument("--kv-cache-type", metavar="TYPE", help="number format of the KV cache: FP8")
    settings.add_argument("--gpu-memory-percent", type=int, metavar="PERCENT", help="share of a GPU's memory")


def run(args: argparse.Namespace) -> int:
    """Import and write. Raises `SizingError` for files and declarations that cannot be used."""
    import yaml

    from firsttoken_operator.api.profiles import benchmark_document
    from firsttoken_operator.cli.measured import WORDS, declared_of, read_results

    declared = declared_of({word: getattr(args, word.replace("-", "_")) for word in WORDS})
    result = read_results(args.files, declared)
    if not result.profiles:
        raise InvalidInput("FILE", "no run could be used", "see the reasons above, and measure again")
    documents = [benchmark_document(profile) for profile in result.profiles]
    text = yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)
    emit(text.encode(), args.out)
    points, profiles = sum(len(profile.points) for profile in result.profiles), len(result.profiles)
    print(
        f"imported {points} points as {profiles} BenchmarkProfile(s), left out {len(result.refused)} run(s)",
        file=sys.stderr,
    )
    return 0
