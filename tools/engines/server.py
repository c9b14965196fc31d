"""A real server as a program of this machine: its ports, its start, and how it ends, at once or when it is asked to."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tools.cluster.ports import lease_port
from tools.cluster.process import Component
from tools.cluster.waiting import answers, wait_until


class Server(ABC):
    """A server for one `with` block; it can be ended and started again. Its ports stay the same for life."""

    def __init__(self, ports: int) -> None:
        """`ports`: so many, the first that of its API, the last that of its metrics."""
        self._leases = [lease_port() for _ in range(ports)]
        self._component: Component | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for lease in self._leases:
            lease.release()

    @property
    def url(self) -> str:
        """Address of its HTTP API."""
        return f"http://127.0.0.1:{self._leases[0].port}"

    @property
    def metrics_address(self) -> str:
        """Host and port of its metrics."""
        return f"127.0.0.1:{self._leases[-1].port}"

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it serves."""

    def kill(self) -> None:
        """End it at once, with whatever it works on."""
        if self._component is not None:
            self._component.stop()
            self._component = None

    def drain(self, timeout_seconds: float) -> int:
        """Ask it to stop, as a kubelet does, and wait for its end; its exit code. Raises `TimeoutExpired`."""
        assert self._component is not None, "it was started"
        self._component.send_signal(signal.SIGTERM)
        code = self._component.wait(timeout_seconds)
        self.kill()  # of what was, only our end of its pipe is left
        return code

    def _serve(self, component: Component, ready_path: str, seconds: float) -> None:
        """Wait until the program answers at this path of its API."""
        self._component = component

        def ready() -> bool:
            component.require_running()
            return answers(f"{self.url}{ready_path}")

        wait_until(ready, seconds, f"{component.name} ready")
