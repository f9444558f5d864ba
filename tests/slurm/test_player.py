"""The player that compares with a real Slurm: the values that it removes, and the lines that it generates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.slurm.beside import player
from tests.slurm.beside.generator import scenes
from tests.slurm.beside.player import Difference, Plain, Scene, Side, Step


def test_numbers_times_nodes_and_directories_are_put_aside() -> None:
    plain = Plain(Path("/play/w"), {})
    assert plain(1, "Submitted batch job 710007\n") == "Submitted batch job {J1a}"
    assert plain(2, "710007 710009 710010") == "{J1a} {J2a} {J2b}"
    assert plain(3, "cn[3-4]   cn3 /play/w/out\n2026-01-02T03:04:05 0:07") == "{N1},{N2} {N1} {DIR}/out\n{TIME} {SHORT}"
    assert plain(4, "two  blanks stay, as does 1:07:00 ") == "two  blanks stay, as does 1:07:00"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("srun: job 710007 queued and waiting for resources\nsrun: job 710007 has been allocated resources\nx", "x"),
        ("srun: job 710007 queued and waiting for resources", "srun: job {J1a} queued and waiting for resources"),
        ("x\nsrun: Force Terminated JobId=710007", "x"),
        ("scancel: select/linear: init: node selection plugin loaded with argument 17\nx", "x"),
        ("slurmstepd-cn3: debug2: a\nslurmstepd-cn3: task 0 (17) started 2026\nx", "x"),
        ("slurmstepd-cn3: error: x", "slurmstepd-{N1}: error: x"),
        ("at 2154-07-05T12:15:12 using 1 processors on nodes cn2", "at {TIME} using 1 processors on nodes {CHANCE}"),
    ],
)  # fmt: skip
def test_what_chance_decides_is_put_aside(text: str, left: str) -> None:
    assert Plain(Path("/play/w"), {})(1, text) == left


def test_nodes_that_a_line_names_keep_their_names() -> None:
    plain = Plain(Path("/play/w"), {})
    assert plain(1, "cn1 cn2 cn[1,3] cn[1-2]", "squeue -w cn1,cn3") == "cn1 {N1} cn[1,3] {N2},{N1}"
    assert plain(2, "cn1 cn2") == "{N2} {N1}"


def test_tasks_that_end_in_another_order_are_alike() -> None:
    one = "b\nsrun: error: n: tasks 0-2: Exited with exit code 1\na"
    two = "a\nsrun: error: n: task 2: Exited with exit code 1\nb\nsrun: error: n: tasks 0-1: Exited with exit code 1"
    assert player.of_tasks(one) == player.of_tasks(two) != player.of_tasks(two.replace("0-1", "0"))
    assert player.of_tasks("b\na") == "b\na"


class Answering(Side):
    """A side that answers each command with the next of these texts, and then with the last one."""

    def __init__(self, place: Path, *answers: str) -> None:
        super().__init__("theirs", "", place)
        self.answers = list(answers)

    def run(self, line: str, user: str, place: Path, more: Mapping[str, str]) -> tuple[int, str, str]:
        if not line.startswith("sinfo"):
            return 0, "", ""
        return 0, self.answers.pop(0) if len(self.answers) > 1 else self.answers[0], ""


@pytest.mark.parametrize(
    ("theirs", "ours", "differs"),
    [
        (("a\nb\n", "b\na\n"), "b\na\n", False),
        (("a\nb\n",), "b\na\n", True),
        (("a\nb\n", "b\na\n"), "b\nc\n", True),
    ],
    ids=["in any order", "in one order", "other rows"],
)
def test_rows_that_a_real_sinfo_shows_in_any_order_are_compared_without_it(
    tmp_path: Path, theirs: tuple[str, ...], ours: str, *, differs: bool
) -> None:
    sides = Answering(tmp_path / "a", *theirs), Answering(tmp_path / "b", ours)
    assert bool(player.compare(sides, Scene("s", (Step("sinfo -N"),)))) is differs


def test_a_seed_makes_the_same_scenes_each_time_and_as_many_steps_as_asked() -> None:
    made = list(scenes(3, 100))
    assert made == list(scenes(3, 100)) != list(scenes(4, 100))
    assert sum(len(scene.steps) for scene in made) >= 100
    assert all(scene.steps[0].line.startswith("sbatch ") for scene in made)


def test_a_difference_is_shrunk_to_the_steps_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(sides: tuple[Side, Side], scene: Scene) -> list[Difference]:
        lines = [step.line for step in scene.steps]
        return [Difference("s", len(lines), lines[-1], "", "x")] if "needed" in lines else []

    monkeypatch.setattr(player, "compare", compare)
    side = Side("theirs", "/usr/bin", Path("/play"))
    scene = Scene("s", tuple(map(Step, ("a", "needed", "b", "last"))))
    found = player.shrunk((side, side), scene, Difference("s", 4, "last", "", "x"))
    assert [step.line for step in found.steps] == ["needed", "last"]
