"""`slurm/submission/asked/script.py`: the script of a batch job."""

from __future__ import annotations

import io
import sys

import pytest

from phalanx.slurm.options import Usage
from phalanx.slurm.submission.asked import script


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"echo hi\n", "This does not look like a batch script.  The first"),
        (b"", "Batch script is empty!"),
        (b"\0" * 9, "contains only whitespace!"),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS line breaks"),
        (b"#!/bin/sh\nno\0side\n", "NULL character"),
        (b"#!/bin/sh\n" + b"#" * 130_000, "more than 120000 bytes"),
    ],
)
def test_scripts_that_are_refused(content: bytes, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(Usage, match=text.replace("!", r"\!")):
        script.read_script(None)


def test_lines_of_the_head_count_and_no_others() -> None:
    text = (
        '#!/bin/bash\n#SBATCH -J "two words" # remark\n##SBATCH -n 3\n# SBATCH -n 4\n\n#SBATCH --nice=7\ntrue\n'
        "#SBATCH -N 9\n"
    )
    assert list(script.lines(text)) == [["-J", "two words"], ["--nice=7"]]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("#PBS -N a\n#PBS -l nodes=2:ppn=4,walltime=1:00:00\n#PBS -q short", {
            "job-name": "a", "nodes": "2", "ntasks-per-node": "4", "time": "1:00:00", "partition": "short"}),
        ("#PBS -j oe\n#PBS -o out -m ae", {"output": "out", "mail-type": "FAIL,END"}),
        ("#BSUB -J b -n 3 -W 1:30\n#BSUB -W 5", {"job-name": "b", "ntasks": "3", "time": "5"}),
        ("#PBSX -N a\ntrue\n#PBS -N b", {}),
    ],
)  # fmt: skip
def test_lines_of_pbs_and_lsf_are_options_of_sbatch(lines: str, said: dict[str, str]) -> None:
    assert script.foreign(f"#!/bin/sh\n{lines}\ntrue\n") == said
