"""How long the embedded API server takes from its start until it answers, by the number of objects that it holds.

The objects are pods of about 1.4 KB, of which as many revisions are kept as a running server keeps. The server is
killed (SIGKILL) and started again on the same directory. One JSON object on standard output; `cpu_s` is the
processor time until the server is ready, which says more than the clock on a machine that does other things as well.

    python benchmarks/apiserver_start.py [--objects N[,N...]] [--times T]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from apiserver_writes import POD, STATUS, cpu_s, peak_mib
from phalanx.embedded.apiserver.storage.journal import PUT, Journal, JournalRow
from phalanx.embedded.apiserver.storage.settings import Retention, StoreSettings

BATCH = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", default="1000,10000,100000", help="how many objects (default: %(default)s)")
    parser.add_argument("--times", type=int, default=3, help="starts of each, of which the median is printed")
    given = parser.parse_args()
    found = {}
    for text in given.objects.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found[text] = measure(Path(folder), int(text), given.times)
    print(json.dumps(found, indent=2))


def measure(folder: Path, objects: int, times: int) -> dict[str, float]:
    start(folder)  # certificates and the first objects
    fill(folder, objects)
    runs = [start(folder) for _ in range(times)]
    return {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}


def start(folder: Path) -> dict[str, float]:
    """Start a server, and kill it as soon as it answers."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "phalanx.embedded.apiserver", "--data", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    if not server.stdout.readline().startswith("ready"):
        raise SystemExit("the server did not start")
    took = {"ready_s": time.perf_counter() - began, "cpu_s": cpu_s(server.pid), "peak_mib": peak_mib(server.pid)}
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    return took


def fill(folder: Path, objects: int) -> None:
    """Pods, the last of them written twice: as many revisions as are kept of a past."""
    journal = Journal(StoreSettings(data_dir=folder).database)
    version = max((row.version for row in journal.rows()), default=0)
    again = min(objects, Retention().events)
    rows: list[JournalRow] = []
    for number in [*range(objects), *range(objects - again, objects)]:
        version += 1
        name = f"pod-{number}"
        meta = {**POD["metadata"], "name": name, "namespace": "default", "resourceVersion": str(version)}
        data = json.dumps({**POD, "metadata": meta, **STATUS, "padding": "x" * 700}).encode()
        rows.append(JournalRow(version, 0, PUT, time.time(), "", "pods", "default", name, data))
        if len(rows) == BATCH:
            journal.commit(rows)
            rows = []
    journal.commit(rows)
    journal.close()


if __name__ == "__main__":
    main()
