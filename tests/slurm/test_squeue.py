"""`slurm/commands/jobs/squeue.py`: squeue."""

from __future__ import annotations

import pytest

from phalanx.slurm.commands.jobs import squeue
from phalanx.slurm.options import OptionReader, Usage


def test_an_option_with_two_spellings_is_not_ambiguous() -> None:
    reader = OptionReader("squeue", squeue.OPTIONS)
    assert reader.read(["--user=a", "--users=b", "--nod=n"])[0] == [("users", "a"), ("users", "b"), ("nodelist", "n")]
    with pytest.raises(Usage) as error:
        reader.read(["-h", "--no"])
    listed = "'--noconvert' '--node' '--nodes' '--nodelist' '--noheader'"  # in Slurm's order
    assert f"possibilities: {listed}" in error.value.text
    assert error.value.read == [("noheader", None)]
