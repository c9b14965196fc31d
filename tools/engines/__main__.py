"""Makes what the tests with real servers need, with progress: `python -m tools.engines`.

Where this machine cannot run one, that is said and nothing is made: its tests are skipped.
"""

from __future__ import annotations

import sys

from tools.cluster import exit_status, report
from tools.engines.triton import missing, triton


def make() -> None:
    """Fetch what is missing; print where it is."""
    if reason := missing():
        report(f"no Triton on this machine: {reason}")
        return
    print(f"triton: {triton()}")


if __name__ == "__main__":
    sys.exit(exit_status(make))
