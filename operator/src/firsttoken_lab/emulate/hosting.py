"""Hosting of an emulated process: a listening socket whose port can be found, and an end on a signal."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from aiohttp import web


def stop_on_signals() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def serve(
    app: web.Application, host: str, port: int, port_file: Path | None, shutdown_timeout_seconds: float = 1.0
) -> tuple[web.AppRunner, int]:
    """Listen (port 0: any free one), write the port where asked, and return the runner to clean up and the port.

    The clean-up takes no more requests, and gives those under way `shutdown_timeout_seconds`.
    """
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=shutdown_timeout_seconds)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    bound: int = runner.addresses[0][1]
    if port_file is not None:
        # NB: written whole and renamed, so that a reader never sees half a number.
        part = port_file.with_name(port_file.name + ".part")
        part.write_text(f"{bound}\n")
        part.replace(port_file)
    return runner, bound
