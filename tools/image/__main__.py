"""Builds the image and says where it is: `python -m tools.image`."""

from __future__ import annotations

import sys

from tools.cluster import exit_status
from tools.image.build import image


def make() -> None:
    """Build what is missing."""
    built = image()
    unpacked = sum(path.lstat().st_size for path in built.root.rglob("*") if not path.is_symlink()) / 1e6
    print(f"{built.name}: {built.archive} ({unpacked:.0f} MB unpacked)")


if __name__ == "__main__":
    sys.exit(exit_status(make))
