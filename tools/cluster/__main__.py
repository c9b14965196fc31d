"""Makes everything the cluster harness needs, with progress: `python -m tools.cluster`."""

from __future__ import annotations

import sys

from tools.cluster.build import control_plane
from tools.cluster.progress import exit_status
from tools.cluster.tools import helm, kubectl


def make() -> None:
    """Build and fetch what is missing; print where it is."""
    print(f"control plane: {control_plane()}")
    print(f"helm: {helm()}")
    print(f"kubectl: {kubectl()}")


if __name__ == "__main__":
    sys.exit(exit_status(make))
