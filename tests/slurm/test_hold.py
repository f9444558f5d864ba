"""`slurm/commands/cluster/verbs/hold.py`: scontrol hold, release, requeue, suspend, resume and top."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from phalanx.slurm.commands.cluster.verbs import hold
from phalanx.slurm.jobs.view import JobInfo
from tests.slurm.test_command_lines import ask


@pytest.mark.parametrize(
    ("line", "hold"),
    [
        ("-N9", "PartitionNodeLimit"),
        ("-t 8-0", "PartitionTimeLimit"),
        ("-p wide -N3", "PartitionNodeLimit"),
        ("-p closed", "PartitionDown"),
        ("-H", "JobHeldUser"),
        ("", ""),
    ],
)
def test_what_the_partition_keeps_waits_with_slurms_reason(line: str, hold: str) -> None:
    assert ask(f"{line} --wrap true").ask.hold == hold


def test_an_account_that_a_partition_does_not_take_keeps_its_job_waiting() -> None:
    hold = ask("-p priv -A physics").ask.hold
    assert hold == "Job's account not permitted to use this partition (priv allows chem not physics)"


def test_an_administrators_hold_is_not_the_users_to_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = JobInfo(number=7, ask=ask("").ask, state="PENDING", reason="JobHeldAdmin", held=True)
    monkeypatch.setattr(hold, "with_ended", lambda api, word: [held])
    monkeypatch.setattr(hold.running, "may", lambda api, job: True)
    monkeypatch.setattr(hold, "_may_release", lambda api, job: False)
    monkeypatch.setattr(hold.ApiClient, "open", lambda: None)
    assert hold.hold(["7"], "") == 1
    assert capsys.readouterr().err.startswith("Access/permission denied for job 7\n")


class _Server:
    def __init__(self) -> None:
        self.held: list[object] = []

    def within(self, namespace: str) -> _Server:
        return self

    def patch(self, path: str, body: dict[str, dict[str, dict[str, object]]]) -> None:
        self.held.append(body["metadata"]["annotations"]["phalanx.dev/hold"])


def test_only_uhold_lets_the_user_release_what_root_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold.os, "getuid", lambda: 0)
    monkeypatch.setattr(hold, "refusal", lambda api, job: "")
    monkeypatch.setattr(hold, "_may_release", lambda api, job: True)
    server, job = (
        _Server(),
        JobInfo(number=12, ask=replace(ask("").ask, uid=1000), state="PENDING", reason="JobHeldAdmin"),
    )
    for as_user in (False, True):
        assert hold._hold(server, [job], "JobHeldUser", as_user=as_user) == ""  # type: ignore[arg-type]  # a double
    assert server.held == ["JobHeldAdmin", "JobHeldUser"]
