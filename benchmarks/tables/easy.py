"""EASY backfilling (Gaussier, Glesser, Reis, Trystram, SC'15): mean bounded slowdown on KTH-SP2, 100 processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from study import Cell, Figures, Row, Study, trace

from phalanx import loop
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.readers import swf
from phalanx.simulator.run.play import play as simulate
from phalanx.simulator.run.setup import built_in

LOG = "KTH-SP2-filtered.swf.gz"
PUBLISHED = {
    ("easy", "user"): 92.58,
    ("easy-sjbf", "user"): 69.41,
    ("easy", "exact"): 71.72,
    ("easy-sjbf", "exact"): 49.85,
    ("easy-sjbf", "last-two"): 63.50,
}


def play(policy: str, estimates: str) -> Figures:
    found = measure(simulate(swf.read(trace(LOG)), built_in(policy), loop.step, estimates=estimates))
    return {name: found[name] for name in ("mean_bounded_slowdown", "mean_wait_s", "wall_s", "jobs_per_s")}


def rows(of: Callable[..., Figures | None]) -> Iterator[Row]:
    for (policy, estimates), published in PUBLISHED.items():
        figures = of(policy=policy, estimates=estimates)
        ours = None if figures is None else figures["mean_bounded_slowdown"]
        yield Row(f"{policy}, estimates: {estimates}", ours, published, within=0.01)


CELLS = [Cell("easy", {"policy": policy, "estimates": estimates}, (LOG,)) for policy, estimates in PUBLISHED]
STUDY = Study("easy", "EASY, SC'15: mean bounded slowdown on KTH-SP2", CELLS, play, rows)
