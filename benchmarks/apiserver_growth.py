"""What a write costs the embedded API server as the number of objects grows, with watchers that look on.

Pods are put into the database, in a hundred namespaces; then a server starts on it. Pods are created, their status is
written and they are deleted, in one namespace that many watch. One JSON object on standard output, a row for each size;
`server_cpu_us` is the processor time of the server per write, with telling it to all watchers. `--to` draws it against
the number of objects, `apiserver-growth.svg` in that folder.

    python benchmarks/apiserver_growth.py [--objects N[,N...]] [--pods P] [--watchers W] [--to docs/benchmarks]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import uvloop
from matplotlib.figure import Figure

from apiserver_start import BATCH, start
from apiserver_writes import (
    POD,
    PODS,
    STATUS,
    Call,
    Connection,
    connect,
    creations,
    measure,
    patches,
    peak_mib,
    serving,
)
from phalanx.embedded.apiserver.storage.journal import PUT, Journal, JournalRow
from phalanx.embedded.apiserver.storage.settings import StoreSettings

NAMESPACES = 100


def fill(folder: Path, objects: int) -> None:
    """Pods of 1.4 KB, without a past."""
    journal = Journal(StoreSettings(data_dir=folder).database)
    version, rows = max((row.version for row in journal.rows()), default=0), list[JournalRow]()
    for number in range(objects):
        version += 1
        name, namespace = f"mass-{number}", f"mass-{number % NAMESPACES}"
        meta = {**POD["metadata"], "name": name, "namespace": namespace, "resourceVersion": str(version)}
        data = json.dumps({**POD, "metadata": meta, **STATUS, "padding": "x" * 700}).encode()
        rows.append(JournalRow(version, 0, PUT, time.time(), "", "pods", namespace, name, data))
        if len(rows) == BATCH or number == objects - 1:
            journal.commit(rows)
            rows = []
    journal.note("horizon", version)
    journal.close()


def deletions(count: int) -> Iterator[Call]:
    for number in range(count):
        yield "DELETE", f"{PODS}/pod-{number}", b"", "application/json"


# What is measured: the calls, and how they are answered.
PHASES: dict[str, tuple[Callable[[int], Iterator[Call]], int]] = {
    "creates": (creations, 201),
    "status_patches": (patches, 200),
    "deletes": (deletions, 200),
}


async def drink(connection: Connection) -> None:
    connection.writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\n{connection.head}\r\n".encode())
    while await connection.reader.read(2**20):
        pass


async def run(given: argparse.Namespace, data: Path, port: int, pid: int) -> dict[str, Any]:
    tls = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    token = (data / "tokens.csv").read_text().split(",")[0]
    pool = [await connect(port, token, tls) for _ in range(8)]
    watchers = [asyncio.ensure_future(drink(await connect(port, token, tls))) for _ in range(given.watchers)]
    await measure(pool, (("GET", f"{PODS}?limit=1", b"", "") for _ in range(50)), 200, pid)
    found: dict[str, Any] = {}
    for name, (calls, code) in PHASES.items():
        found[name] = await measure(pool, iter(calls(given.pods)), code, pid)
    for task in watchers:
        task.cancel()
    return {**found, "server_peak_rss_mib": peak_mib(pid)}


def drawn(found: dict[str, dict[str, Any]]) -> Figure:
    """The processor time of a write against the number of objects that are there."""
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, mark in zip(PHASES, ("o-", "s-", "^-"), strict=True):
        costs = [each[name]["server_cpu_us"] for each in found.values()]
        axes.plot([int(size) for size in found], costs, mark, label=name.replace("_", " "))
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("objects")
    axes.set_ylabel("CPU time of the server per write (µs)")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", default="1000,10000,100000", help="how many there are (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--to", type=Path, help="a folder for the plot")
    given = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for text in given.objects.split(","):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            start(data)  # certificates and the first objects
            fill(data, int(text))
            with serving(data) as (_, port, pid):
                found[text] = uvloop.run(run(given, data, port, pid))
    print(json.dumps({"benchmark": "apiserver_growth", "watchers": given.watchers, "objects": found}))
    if given.to:
        mpl.rcParams["svg.hashsalt"] = "phalanx"  # the same figures, the same file
        drawn(found).savefig(given.to / "apiserver-growth.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
