"""Tasks over nodes, and programs over tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.slurm.commands.launch.srun_options import commands
from phalanx.slurm.jobs.steps.layout import block, cyclic, gpu_options, gpus_of_task
from phalanx.slurm.jobs.steps.records import StepRecord, ended, read
from phalanx.slurm.notation.amounts import spread
from phalanx.slurm.options import Usage


def test_nodes_are_filled_one_after_the_other_and_each_gets_one() -> None:
    assert spread(5, [16, 16, 16]) == [3, 1, 1]
    assert spread(40, [16, 16, 16]) == [16, 16, 8]
    assert spread(4, [16, 16], 2) == [2, 2]
    assert spread(3, [16, 16], 2) == [2, 1]
    assert spread(6, [2, 2]) == [2, 4]  # more than there is room for: the last takes them


def test_block_and_cyclic() -> None:
    assert block([3, 1, 1]) == [[0, 1, 2], [3], [4]]
    assert cyclic([3, 1, 1]) == [[0, 3, 4], [1], [2]]


def test_several_programs(tmp_path: Path) -> None:
    file = tmp_path / "programs"
    file.write_text("# who does what\n0,2-3 worker %t of %o\n1 'the boss' \\\n  --now\n")
    of = commands({"multi-prog": None}, [str(file)], 4)
    assert [of(task) for task in range(4)] == [
        ["worker", "0", "of", "0"], ["the boss", "--now"], ["worker", "2", "of", "1"], ["worker", "3", "of", "2"]
    ]  # fmt: skip
    with pytest.raises(Usage, match="no record for task id 4"):
        commands({"multi-prog": None}, [str(file)], 5)
    file.write_text("x-y prog\n")
    with pytest.raises(Usage, match="invalid task range"):
        commands({"multi-prog": None}, [str(file)], 1)


def test_what_is_recorded_of_a_step() -> None:
    step = StepRecord(name="a", start_s=1.0)
    assert step.state == "RUNNING"
    assert [ended(step, code, signal).state for code, signal in ((0, 0), (3, 0), (0, 15), (0, 11))] == [
        *("COMPLETED", "FAILED", "CANCELLED", "CANCELLED")
    ]
    words = {"slurm.phalanx.dev/step.10": '{"name":"b"}', "step.2": '{"name":"a"}', "step.x": "{}", "step.3": "no"}
    assert {number: one.name for number, one in read(words).items()} == {2: "a", 10: "b"}


@pytest.mark.parametrize(
    ("said", "local", "own"),
    [
        ({"gpus-per-task": "1"}, 0, "0"),
        ({"gpus-per-task": "1"}, 2, "2"),
        ({"gpus-per-task": "gpu:a100:2"}, 1, "2,3"),
        ({"gpus-per-task": "1"}, 4, None),  # the node has no GPU of its own for the task
        ({"gpus-per-task": "1", "gpu-bind": "none"}, 1, None),
        ({"gpus": "4"}, 1, None),
    ],
)
def test_a_task_sees_the_gpus_that_it_asked_for(said: dict[str, str | None], local: int, own: str | None) -> None:
    found = gpus_of_task("0,1,2,3", gpu_options(said), local)
    assert found == ({} if own is None else {"CUDA_VISIBLE_DEVICES": own, "GPU_DEVICE_ORDINAL": own})
    assert gpus_of_task("", gpu_options(said), local) == {}
