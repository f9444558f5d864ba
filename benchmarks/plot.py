"""What a cycle costs as the cluster grows: against nodes, against queued jobs, against queues; JSON and a plot (SVG).

Each point is `decide_queue.py`'s measurement: a full cluster, that many jobs waiting, 1 % changing per cycle. One of
the three grows, the others stay at what `--nodes`, `--queued` and `--queues` give last. A fourth panel has queued jobs
again, of which `--changes` change however many wait: in plain queues, and in fair ones with ceilings. CPU time, so that
other work on the machine counts less; its load average is written down beside.

    python benchmarks/plot.py --to docs/benchmarks [--nodes 1000 5000] [--queued 10000 100000] [--queues 1 100 1000]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from decide_queue import measure

SWEPT = ("nodes", "queued", "queues")
SETTINGS = {"shapes": 1000, "order": "priority", "limited": False, "strict": False, "timed": False, "changes": 0}
FAIR = {"order": "fair", "limited": True}


def sweep(swept: str, args: argparse.Namespace, **others: object) -> list[dict[str, object]]:
    """One measurement for each size of what is swept. `others`: settings that are not the usual ones."""
    found = []
    for size in getattr(args, swept):
        fixed = {name: size if name == swept else getattr(args, name)[-1] for name in SWEPT}
        asked = argparse.Namespace(**SETTINGS | fixed | others, cycles=args.cycles)
        found.append(measure(fixed["queued"], asked) | {"swept": swept, "load": round(os.getloadavg()[0], 1)})
        print(json.dumps(found[-1]), flush=True)
    return found


def drawn(found: Sequence[dict[str, object]]) -> Figure:
    """A panel for each, with the median and the 99th percentile; last, medians where as much changes at any length."""
    figure = Figure(figsize=(13, 3.4), layout="constrained")
    *panels, last = figure.subplots(1, len(SWEPT) + 1)
    for axes, swept in zip(panels, SWEPT, strict=True):
        points = [each for each in found if each["swept"] == swept and not each["changes"]]
        for name, mark in (("p50_cpu_ms", "o-"), ("p99_cpu_ms", "s--")):
            axes.plot([each[swept] for each in points], [each[name] for each in points], mark, label=name[:3])
        axes.set_xlabel(swept)
    for order, mark in (("priority", "o-"), (FAIR["order"], "^-")):
        points = [each for each in found if each["changes"] and each["order"] == order]
        label = "fair, with ceilings" if order == FAIR["order"] else "plain"
        last.plot([each["queued"] for each in points], [each["p50_cpu_ms"] for each in points], mark, label=label)
    last.set_xlabel(f"queued, of which {max(int(str(each['changes'])) for each in found)} change")
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("CPU time of a cycle (ms)")
    figure.axes[0].legend()
    last.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[500, 1000, 2000, 5000])
    parser.add_argument("--queued", type=int, nargs="*", default=[3000, 10_000, 30_000, 100_000])
    parser.add_argument("--queues", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--to", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args()
    found = [point for swept in SWEPT for point in sweep(swept, args)]
    for settings in ({}, FAIR):
        found += sweep("queued", args, changes=args.changes, **settings)
    args.to.mkdir(parents=True, exist_ok=True)
    (args.to / "cycle.json").write_text("".join(json.dumps(each) + "\n" for each in found))
    mpl.rcParams["svg.hashsalt"] = "phalanx"  # the same figures, the same file
    drawn(found).savefig(args.to / "cycle.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
