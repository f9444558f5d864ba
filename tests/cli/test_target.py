"""`cli/cluster/target.py`: which cluster a command talks to."""

from __future__ import annotations

from pathlib import Path

from phalanx.cli.cluster.target import Target, find_ledger_of
from phalanx.ledger.entry import FILE, JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.ledger.usage import past_runs
from tests.cli.test_job_reading import NOW_S, batch_job, node, queue, snapshot


def test_expected_starts_follow_what_the_ledger_knows_of_past_runs(tmp_path: Path) -> None:
    """Of jobs whose objects are gone: those of the same user ran for a minute, so the second of two waits for one."""
    ended = StartEntry(at_s=NOW_S - 500, state=State.COMPLETED, end_s=NOW_S - 440)
    entries = [
        JobEntry(uid=f"u{n}", job=f"default/a-{n}", state=State.COMPLETED, end_s=NOW_S - 440, starts=(ended,), pods=1)
        for n in range(8)
    ]
    with Ledger.open(url_of(tmp_path / FILE)) as ledger:
        ledger.put(entries)
        runs = list(past_runs(ledger.ended(10)))
    objects = [node("n1"), queue("default"), batch_job("a-8", 1, "4"), batch_job("a-9", 1, "4")]
    assert not snapshot(*objects).expected(["default/a-9"])
    wait_s = snapshot(*objects, runs=runs).expected(["default/a-9"])["default/a-9"].start_s - NOW_S
    assert 0 < wait_s < 120
    here = Target(kubeconfig=tmp_path / "kubeconfig")
    assert find_ledger_of(here, {}) == url_of(tmp_path / FILE)
    assert find_ledger_of(Target(kubeconfig=tmp_path / "elsewhere" / "kubeconfig"), {}) is None
    assert find_ledger_of(here, {"PHALANX_LEDGER": "postgresql://x/y"}) == "postgresql://x/y"
