"""Tables that others published, with ours beside them.

    python benchmarks/tables [--table easy fgd muri kubecon philly] [--quick] [--json] [--processes N]

Each cell of a table is one simulation by the scheduler itself; as many run at a time as there are processors. What is
done is kept (out/tables), so a run that was stopped goes on where it was. `TRACES` names a folder with more traces,
`SEEDS` how many seeds are played where a study has several."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from signal import SIG_IGN, SIGINT, signal

import easy
import fgd
import kubecon
import muri
import philly
from rich.console import Console
from rich.table import Table
from study import Cell, Figures, Missing, Row, Study, keep, known, trace

from phalanx.loop import spare_the_book

STUDIES: dict[str, Study] = {
    study.name: study for study in (easy.STUDY, fgd.STUDY, muri.STUDY, kubecon.STUDY, philly.STUDY)
}


def main() -> int:
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("--table", nargs="+", choices=STUDIES, default=list(STUDIES))
    said.add_argument("--quick", action="store_true", help="only the cells that take a minute at most")
    said.add_argument("--json", action="store_true", help="an object for each row")
    said.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = said.parse_args()
    studies = [STUDIES[name] for name in args.table]
    cells = [cell for study in studies for cell in study.cells if not (args.quick and cell.slow)]
    whole = play_all([cell for cell in cells if playable(cell)], args.processes)
    failed = 0
    for study in studies:
        found = [row for row in study.rows(figures_of(study)) if row.ours is not None]
        failed += sum(row.holds is False for row in found)
        if found:
            (print_json if args.json else print_table)(study, found)
        elif args.quick:
            say(f"{study.name}: no cell of it was played; --quick leaves out what takes longer than a minute")
    return 130 if not whole else 1 if failed else 0


def playable(cell: Cell) -> bool:
    try:
        for name in cell.traces:
            trace(name)
    except Missing as missing:
        print(f"{cell.study} {cell.name}: {missing}", file=sys.stderr)
        return False
    return True


def figures_of(study: Study) -> Callable[..., Figures | None]:
    cells = {tuple(cell.said.items()): cell for cell in study.cells}
    return lambda **said: known(cells[tuple(said.items())])


def play_all(cells: Sequence[Cell], processes: int) -> bool:
    """Whether all were played; those that are known already are not played again."""
    left = [cell for cell in cells if known(cell) is None]
    done, began_s = 0, time.monotonic()
    if not left:
        return True
    with ProcessPoolExecutor(min(processes, len(left)), initializer=lay_low) as pool:
        futures: dict[Future[Figures], Cell] = {pool.submit(play_one, cell): cell for cell in left}
        try:
            while futures:
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    cell = futures.pop(future)
                    done += 1
                    rate_s = (time.monotonic() - began_s) / done
                    say(
                        f"{done} of {len(left)}: {cell.study} {cell.name} in {future.result()['wall_s']:.0f} s; "
                        f"about {rate_s * len(futures) / 60:.0f} min left"
                    )
        except KeyboardInterrupt:
            for process in (pool._processes or {}).values():
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            say("stopped: what is done is kept")
            return False
    return True


def lay_low() -> None:
    """Ctrl-C is for the one who waits for us."""
    signal(SIGINT, SIG_IGN)


def play_one(cell: Cell) -> Figures:
    spare_the_book()
    figures = STUDIES[cell.study].play(**cell.said)
    keep(cell, figures)
    return figures


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_json(study: Study, rows: Sequence[Row]) -> None:
    for row in rows:
        print(json.dumps({"table": study.name, **row.as_json()}))


def print_table(study: Study, rows: Sequence[Row]) -> None:
    table = Table("", "ours", "published", "difference", "", title=study.title)
    for column in table.columns[1:4]:
        column.justify = "right"
    for row in rows:
        table.add_row(row.what, *shown(row))
    Console().print(table)


def shown(row: Row) -> tuple[str, str, str, str]:
    published = "" if row.published is None else f"{row.published:,.{row.digits}f}"
    change = "" if row.difference is None else f"{row.difference:+.2%}" if row.relative else f"{row.difference:+.2f}"
    verdict = {None: "", True: "✓", False: "✗"}[row.holds]
    return f"{row.ours:,.{row.digits}f}", published, change, verdict


if __name__ == "__main__":
    sys.exit(main())
