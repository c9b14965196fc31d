"""Builds the image and says where it is: `python -m tools.image`."""

from __future__ import annotations

import sys

from tools.cluster import SetupError
from tools.image.build import image


def main() -> int:
    """Build what is missing."""
    try:
        built = image()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    unpacked = sum(path.lstat().st_size for path in built.root.rglob("*") if not path.is_symlink()) / 1e6
    print(f"{built.name}: {built.archive} ({unpacked:.0f} MB unpacked)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
