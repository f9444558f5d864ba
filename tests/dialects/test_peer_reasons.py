"""Every reason has its counterpart in each peer, or an explanation why there is none. The guide lists them, and names
files that exist."""

from __future__ import annotations

import re
from pathlib import Path

from phalanx.dialects.frame.peer_reasons import PEERS, IgnoredReason, Peer, word, words
from phalanx.loop import step
from phalanx.model.event import QueueSeen
from phalanx.model.plan import Wait
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import ReasonCode
from phalanx.slurm.jobs.view import REASONS as REASONS_OF_SQUEUE
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants
from tests.scenarios.language import Cycle, read
from tests.scenarios.test_scenarios import Unmoved

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide" / "peers.md").read_text()
REASONS = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", GUIDE, re.MULTILINE)
SCENARIOS = re.findall(r"^\| (\d+|A5 .+?) \| (.+?) \| (.+) \|$", GUIDE, re.MULTILINE)


def test_every_code_is_mapped_or_ignored_with_why() -> None:
    assert list(PEERS) == list(ReasonCode)
    assert all(word.why if isinstance(word, IgnoredReason) else word for words in PEERS.values() for word in words)


def test_squeue_and_explain_say_the_same_words() -> None:
    assert {code: said.slurm for code, said in PEERS.items() if isinstance(said.slurm, str)} == REASONS_OF_SQUEUE


def test_the_guide_shows_the_table() -> None:
    said = [tuple(each.strip("`") for each in row) for row in REASONS]
    assert said == [
        (str(code), *("–" if isinstance(each, IgnoredReason) else each for each in PEERS[code])) for code in PEERS
    ]


def test_every_scenario_of_the_peers_is_shown_by_files_that_exist() -> None:
    numbers = [int(number) for number, _, _ in SCENARIOS if number.isdigit()]
    assert numbers == list(range(1, 44, 2))
    for number, _, shown in SCENARIOS:
        files = re.findall(r"`(\w+/\w+)`", shown)
        assert files, number
        for name in files:
            assert (ROOT / "tests" / "scenarios" / f"{name}.txt").exists(), name
        for file in re.findall(r"`(tests/\S+)`", shown):
            assert (ROOT / file).exists(), file


def test_every_reason_that_slurm_gave_is_the_word_for_ours() -> None:
    """`squeue` of Slurm 22.05.8, and the same jobs in the same queues."""
    shown = (ROOT / "tests" / "core" / "order" / "slurm" / "squeue_reasons.txt").read_text()
    slurms = dict(re.findall(r"batch +(\w+) +\w+ PD .*\((\w+)\)$", shown, re.MULTILINE))
    assert len(slurms) == 10
    (block,) = read(ROOT / "tests" / "scenarios" / "queues" / "slurm_reasons.txt")
    cluster = Cluster()
    events = [QueueSeen(Queue(name="default")), *(each for each in block.steps if not isinstance(each, Cycle))]
    plan = step(cluster, events, Policy(), 0.0, Unmoved())
    check_invariants(cluster)
    ours = {
        action.job: word(action.reason.code, Peer.SLURM, action.reason.numbers)
        for action in plan.actions
        if isinstance(action, Wait)
    }
    assert ours.pop("lim4") == "QOSMaxSubmitJobPerUserLimit"  # what sbatch refused it with
    ours["arr"] = ours.pop("arr3")
    assert ours == slurms


def test_limits_of_amounts_are_told_apart() -> None:
    of_queue = {"rule": "limit", "resource": "memory"}
    assert words(ReasonCode.QUEUE_LIMIT, of_queue)["slurm"] == "AssocGrpMemLimit"
    assert words(ReasonCode.QUEUE_QUOTA, {"rule": "pool", "resource": "nvidia.com/gpu"})["slurm"] == "AssocGrpGRES"
    assert words(ReasonCode.USER_LIMIT, {"rule": "group-running", "resource": ""})["slurm"] == "MaxJobsPerAccount"
    assert words(ReasonCode.NEVER_WITHIN_LIMIT, {"rule": "job", "resource": "cpu"})["slurm"] == "AssocMaxCpuPerJobLimit"
    assert words(ReasonCode.QUEUE_LIMIT, of_queue)["kueue"] == "WaitingForQuota"
    for rule, kai in (("limit", "OverLimit"), ("guarantee", "NonPreemptibleOverQuota")):
        assert words(ReasonCode.NEVER_WITHIN_LIMIT, {"rule": rule, "resource": "nvidia.com/gpu"})["kai"] == kai
