"""`phalanx control-plane` (internal): all that `phalanx up` runs besides the API server, in one process.

Scheduler, Job controller and its companions, this machine's node agent and simulated nodes share one connection and
one cache per kind. They know each other through the API alone. If any of them breaks, the process ends with its
traceback in the log, and `phalanx up` starts it again: everything they know is in the API.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from phalanx.cli.data_directory import DataDirectory
from phalanx.cli.informers import Informers
from phalanx.cli.local_cluster import Machines
from phalanx.client.connection import Connection


def control_plane(*, data: Path, machines: Machines | None = None) -> None:
    """Run the control plane of `phalanx up` (started by it, not by hand).

    Examples:

        phalanx control-plane --data ~/.phalanx
    """
    import uvloop

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    gc.set_threshold(50_000, 20, 50)  # a watch makes many objects and few cycles
    uvloop.run(_serve(DataDirectory(data), machines or Machines()))
