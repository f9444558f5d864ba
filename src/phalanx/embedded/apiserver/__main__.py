"""Run only the API server: `python -m phalanx.embedded.apiserver --data DIR --port N`.

The program prints one line, `ready https://HOST:PORT`, when it serves requests. On SIGINT or SIGTERM, the server closes
its streams, waits until the writes that have begun are on the disk, and exits. If the server cannot start, the program
writes one line to stderr and exits with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path

import uvloop

from phalanx.embedded.apiserver.registry.kinds.batch.job import EMULATED_VERSIONS
from phalanx.embedded.apiserver.server import RunningServer, serve
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.errors import PhalanxError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m phalanx.embedded.apiserver", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="DIR",
        help="the data directory",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port; 0 stands for any free port")
    parser.add_argument(
        "--emulated-version",
        choices=list(EMULATED_VERSIONS),
        default="1.36",
        help="the Kubernetes release by whose rules the template of a suspended Job may change, such as 1.35 "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="start without acknowledged writes that are missing or damaged in the database",
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    def ready(running: RunningServer) -> None:
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, running.stop)
        print(f"ready {running.url}", flush=True)

    # Run Python's garbage collector seldom: it searches for reference cycles, which the objects of the API (plain JSON
    # values) do not have. At the default threshold, the search takes a fifth of the time of a write.
    gc.set_threshold(50_000, 20, 100)
    try:
        settings = StoreSettings(
            data_dir=given.data,
            host=given.host,
            port=given.port,
            emulated_version=given.emulated_version,
            accept_loss=given.accept_loss,
        )
        uvloop.run(serve(settings, ready))
    except PhalanxError as error:
        print(f"phalanx apiserver: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
