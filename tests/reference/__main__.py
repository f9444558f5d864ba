"""Play worlds and list those that break a rule: `python -m tests.reference FIRST LAST [FOLDER]`.

With a folder, each world that breaks a rule is shrunk and written to the folder as a scenario file."""

from __future__ import annotations

import sys
from pathlib import Path

from .play import play
from .test_worlds import shown


def main(first: int, last: int, folder: Path | None) -> None:
    found: dict[str, list[int]] = {}
    for seed in range(first, last):
        report = play(seed)
        if report.rule:
            found.setdefault(report.rule, []).append(seed)
            print(f"{report.rule} {seed}: {report.text}", flush=True)
            if folder is not None:
                (folder / f"{report.rule}_{seed}.txt").write_text(shown(report))
    for rule, seeds in sorted(found.items()):
        print(f"{rule}: {seeds},")
    print(f"{sum(map(len, found.values()))} of {last - first} worlds break a rule")


main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
