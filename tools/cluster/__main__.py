"""Makes everything the cluster harness needs, with progress: `python -m tools.cluster`."""

from __future__ import annotations

import sys

from tools.cluster.build import control_plane
from tools.cluster.progress import SetupError
from tools.cluster.tools import helm, kubectl


def main() -> int:
    """Build and fetch what is missing; print where it is."""
    try:
        print(f"control plane: {control_plane()}")
        print(f"helm: {helm()}")
        print(f"kubectl: {kubectl()}")
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
