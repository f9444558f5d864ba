"""`slurm/notation/amounts.py`: memory, counts per node and generic resources, as Slurm reads and writes them."""

from __future__ import annotations

import pytest

from phalanx.slurm.notation import amounts


@pytest.mark.parametrize(
    ("text", "mib"), [("1000", 1000), ("4G", 4096), ("1500M", 1500), ("1T", 1 << 20), ("2048K", 2)]
)
def test_memory(text: str, mib: int) -> None:
    assert amounts.read_mib(text) == mib


def test_memory_is_written_in_the_largest_unit() -> None:
    written = {1000: "1000M", 4096: "4G", 1 << 20: "1T", 1536: "1.50G", 64000: "62.50G", 16000: "16000M"}
    assert {mib: amounts.memory(mib) for mib in written} == written  # measured, 22.05
    with pytest.raises(amounts.AmountError):
        amounts.read_mib("lots")


def test_counts_per_node() -> None:
    assert amounts.per_node([3, 1, 1]) == "3,1(x2)"
    assert amounts.read_range("2-4") == (2, 4)
    with pytest.raises(amounts.AmountError):
        amounts.read_range("4-2")


def test_a_column_is_as_wide_as_a_screen_may_be() -> None:
    assert [amounts.read_width(text) for text in ("0", "20", "9" * 5000)] == [0, 20, 4096]
