"""`slurm/notation/arrays.py`: job arrays."""

from __future__ import annotations

import pytest

from phalanx.slurm.notation import arrays


@pytest.mark.parametrize(
    ("text", "tasks", "throttle"),
    [("0-3", (0, 1, 2, 3), 0), ("4-8:2", (4, 6, 8), 0), ("1,3,5-6%2", (1, 3, 5, 6), 2), ("1-3%0", (1, 2, 3), 0)],
)
def test_arrays(text: str, tasks: tuple[int, ...], throttle: int) -> None:
    found = arrays.read_array(text, 1001)
    assert (found.tasks, found.throttle) == (tasks, throttle)


@pytest.mark.parametrize("text", ["1-1001", "1-1000000000", "5-1", "abc", "1-", "1-3:0", "-1", "1001"])
def test_arrays_that_slurm_refuses(text: str) -> None:
    with pytest.raises(arrays.ArrayError):
        arrays.read_array(text, 1001)


def test_tasks_that_wait_together() -> None:
    assert arrays.shown([3, 4, 5, 6], 2) == "[3-6%2]"
    assert arrays.shown([1, 3]) == "[1,3]"
    assert arrays.shown([6], 2) == "6"
