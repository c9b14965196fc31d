"""Run by AIConfigurator's own Python: how long its `recommend` takes, JSON in and out.

In: the arguments of `cli_recommend`. Out: {"importSeconds", "firstSeconds", "secondSeconds", "peakMiB", "gpus"}: the
first answer of a process loads the performance data, the second finds it loaded.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

if __name__ == "__main__":
    arguments = json.load(sys.stdin)
    began = time.perf_counter()
    from aiconfigurator.cli.api import cli_recommend  # type: ignore[import-not-found]

    imported = time.perf_counter()
    cli_recommend(**arguments)
    first = time.perf_counter()
    found = cli_recommend(**arguments)
    second = time.perf_counter()
    gpus = [int(best["total_gpus_needed"].min()) for best in found.best_configs.values() if len(best)]
    json.dump(
        {
            "importSeconds": imported - began,
            "firstSeconds": first - imported,
            "secondSeconds": second - first,
            "peakMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "gpus": min(gpus) if gpus else None,
        },
        sys.stdout,
    )
