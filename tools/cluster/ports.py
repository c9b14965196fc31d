"""Ports on 127.0.0.1 that stay ours for as long as we need them, also while the server behind them is restarted.

Asking the kernel for port 0 and closing it again hands the number to the next process that asks. These come from
below the kernel's usual range for outgoing connections and are marked by a lock file, so that neither a stray
connection nor another harness takes one in between. Other programs may still listen there: the harness then tries
again.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from dataclasses import dataclass

from tools.cluster.cache import cache_root

FIRST_PORT, LAST_PORT = 20_000, 29_999


@dataclass(frozen=True, slots=True)
class PortLease:
    """One TCP port on 127.0.0.1, reserved among harnesses until `release`, or until this process ends."""

    port: int
    _lock_descriptor: int

    def release(self) -> None:
        """Give the port back; call once."""
        os.close(self._lock_descriptor)


def lease_port() -> PortLease:
    """Reserve a free port; raises `OSError` where none is left."""
    folder = cache_root() / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    for port in random.sample(range(FIRST_PORT, LAST_PORT + 1), 500):
        descriptor = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                # As Go's listeners do: connections of an earlier server that linger in TIME_WAIT do not matter.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(descriptor)
            continue
        return PortLease(port, descriptor)
    raise OSError(f"no free port on 127.0.0.1 between {FIRST_PORT} and {LAST_PORT} in 500 tries")
