"""A process in the built image as a container runtime would run it: its files alone, read-only, as user 65532."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.cluster import Component
from tools.image.build import Image

USER = 65532
DEVICES = ("null", "zero", "urandom", "random")


class Container:
    """Folders of one read-only root; files that a pod would have mounted are given by their path in it."""

    def __init__(self, image: Image, folder: Path, files: Mapping[str, str]) -> None:
        self.image, self.folder = image, folder
        for name in ("root", "upper", "work"):
            (folder / name).mkdir()
        for path, text in files.items():
            file = folder / "upper" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (folder / "upper/dev").mkdir(exist_ok=True)
        for device in DEVICES:
            (folder / "upper/dev" / device).touch()

    def command(self, *command: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """The command line that runs `command`; the mounts end with it."""
        root, config = self.folder / "root", self.image.config
        layers = f"lowerdir={self.image.root},upperdir={self.folder}/upper,workdir={self.folder}/work"
        script = [
            f"mount -t overlay -o {layers} image {root}",
            *(f"mount --bind /dev/{device} {root}/dev/{device}" for device in DEVICES),
            f"mount -t proc proc {root}/proc",
            f"mount -o remount,ro {root}",
            f'exec chroot --userspec={config["User"]} {root} "$@"',
        ]
        variables = [*config["Env"], *(f"{key}={value}" for key, value in (environment or {}).items())]
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-euc", "\n".join(script), "sh"]
        # `env` of the machine is not in the image: the variables are set before its root is.
        return ["env", "-i", *variables, "PATH=/opt/firsttoken/bin:/usr/sbin:/usr/bin:/sbin:/bin", *own, *command]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(self.command(*command), capture_output=True, text=True, check=False, timeout=120)

    def start(self, *command: str, environment: Mapping[str, str]) -> Component:
        """Start a command."""
        argv = self.command(*command, environment=environment)
        return Component("operator", argv, self.folder / "operator.log", grace_seconds=5)


@contextmanager
def container(image: Image, files: Mapping[str, str]) -> Iterator[Container]:
    """A container with these files."""
    with tempfile.TemporaryDirectory(prefix="firsttoken-container-") as folder:
        Path(folder).chmod(0o755)
        yield Container(image, Path(folder), files)
