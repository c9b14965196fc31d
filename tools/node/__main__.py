"""Makes what the image and the node need, with progress: `python -m tools.node`.

Where this machine can run neither, that is said and nothing is made: their tests are skipped.
"""

from __future__ import annotations

import sys

from tools.cluster import exit_status, report
from tools.cluster.build import node_programs
from tools.image import debian
from tools.image.build import image


def make() -> None:
    """Build and fetch what is missing; print where it is."""
    if reason := debian.missing():
        report(f"no image and no node on this machine: {reason}")
        return
    print(f"node: {node_programs()}")
    print(f"machine: {debian.machine()}")
    print(f"image: {image().archive}")


if __name__ == "__main__":
    sys.exit(exit_status(make))
