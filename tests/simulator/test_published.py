"""Slices of the tables of `make tables`, which plays them whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_muris_third_trace_to_the_second() -> None:
    """Published beside the artifact's figure 9: 193,081.796 s and 185,021.8802 s."""
    command = [sys.executable, "benchmarks/tables", "--table", "muri", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert len(rows) == 8
    for row in rows.values():
        assert abs(row["ours"] - row["published"]) < 0.5, row


@pytest.mark.slow
def test_a_table_without_a_quick_cell_says_so(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.path.insert(0, 'benchmarks/tables')\n"
        "import study\n"
        "study.KEPT = study.Path(sys.argv.pop())\n"
        "runpy.run_path('benchmarks/tables', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, "--table", "philly", "--quick", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "philly: no cell of it was played; --quick leaves out what takes longer than a minute\n"


def test_a_table_says_what_it_lacks_and_where_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'benchmarks/tables')\n"
        "import study\n"
        "study.ROOT = study.Path(sys.argv[1])\n"
        "try: study.trace('no-such.csv.gz')\n"
        "except study.Missing as missing: print(missing)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("no-such.csv.gz is not in TRACES, traces or benchmarks/traces")
