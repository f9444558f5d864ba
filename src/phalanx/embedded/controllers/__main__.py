"""Run only the controllers, for any API server: `python -m phalanx.embedded.controllers --kubeconfig FILE`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal

import uvloop

from phalanx.client.connection import Connection
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers


async def serve(kubeconfig: str | None) -> None:
    """Run the controllers until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await Connection.open(kubeconfig) as connection, SharedInformers(connection) as informers:
        running = asyncio.ensure_future(run_controllers(connection, informers))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m phalanx.embedded.controllers", description=__doc__)
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, else ~/.kube/config")
    parser.add_argument("--verbose", action="store_true", help="log each retry with its reason")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.WARNING, format="%(asctime)s %(message)s")
    uvloop.run(serve(arguments.kubeconfig))


if __name__ == "__main__":
    main()
