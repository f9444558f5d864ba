"""What real schedulers decided and answered (`recorded/`), and what Phalanx decides and answers to the same steps.

A step that is decided otherwise is listed with its reason. `FLOORS`: how many of the recorded lines of status are here,
too; they only rise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import clockwork
from tests.dialects.peers.play import compare, play, read

RECORDED = Path(__file__).parent / "recorded"
PLACEHOLDERS = "YuniKorn's placeholders are pods on nodes; Phalanx has none"
OTHERWISE = {
    "yunikorn/27-gang-soft-timeout": {0: PLACEHOLDERS},
    "yunikorn/29-gang-larger-than-queue": {1: PLACEHOLDERS, 2: PLACEHOLDERS},
    "kai/09-batch-min-member": {2: "of equal nodes KAI takes the first by name, Phalanx the oldest"},
    "kai/15-gpu-fractions": dict.fromkeys((2, 3), "KAI's reservation pods for parts of GPUs count as pods"),
    "coscheduling/07-min-resources": dict.fromkeys((2, 3), "coscheduling does not try a gang again after a change"),
}
FLOORS = {"yunikorn": 44, "kai": 778, "coscheduling": 82, "volcano": 220}  # of 44, 822, 83 and 244


@pytest.mark.slow
@pytest.mark.parametrize("peer", FLOORS)
def test_recorded_decisions_and_answers_are_those_of_phalanx_too(peer: str) -> None:
    others, same, missed = dict[str, list[int]](), 0, list[str]()
    for path in sorted((RECORDED / peer).glob("*.yaml")):
        name, recording = f"{peer}/{path.stem}", read(path)
        score = compare(recording, clockwork.run(play(recording, peer)))
        others |= {name: list(score.others)} if score.others else {}
        same += score.same
        missed += [f"{name}: {each}" for each in score.missed]
    said = "\n".join(missed)
    assert others == {name: list(steps) for name, steps in OTHERWISE.items() if name.startswith(peer)}, said
    assert same == FLOORS[peer], f"fewer lines are a regression, more raise the floor:\n{said}"
