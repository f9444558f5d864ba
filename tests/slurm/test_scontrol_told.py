"""scontrol wait_job, notify, and updates of one line of squeue, in the words of Slurm 22.05."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.commands.cluster import scontrol
from phalanx.slurm.commands.cluster.verbs import hold, nodes, show
from phalanx.slurm.commands.cluster.verbs import named as names
from phalanx.slurm.commands.cluster.verbs import update as changes
from phalanx.slurm.commands.cluster.verbs import update_asked as asked
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.options import Usage

PLAIN = Ask(name="j", user="u", uid=0, gid=0, group="u", account="a", partition="p")
WAITS, RUNS = Job(number=7, ask=PLAIN, state="PENDING"), Job(number=8, ask=PLAIN, state="RUNNING", nodes=("n",))
TASKS = [
    Job(number=11, ask=replace(PLAIN, array=10, task=1), state="PENDING"),
    Job(number=12, ask=replace(PLAIN, array=10, task=2), state="RUNNING", nodes=("n",)),
]


@pytest.mark.parametrize(
    ("word", "jobs", "status", "text"),
    [
        ("8", [RUNS], 0, "scontrol: Nodes are ready for job 8"),
        ("7", [WAITS], 1, "scontrol: Job 7 no longer running"),
        ("10_[1-2]", TASKS[:1], 1, "scontrol: Job 10 no longer running"),
        ("99", [], 1, "scontrol: Problem running job 99"),
    ],
)
def test_wait_job(
    word: str, jobs: list[Job], status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(hold.Api, "open", lambda: None)
    monkeypatch.setattr(hold, "jobs", lambda api, numbers, **_: jobs)
    monkeypatch.setattr(hold, "recorded_of", lambda numbers: [])
    assert hold.wait_for([word]) == status
    assert capsys.readouterr().err == text + "\n"


def test_a_script_that_waits_cannot_be_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold.Api, "open", lambda: None)
    monkeypatch.setattr(hold.running, "may", lambda api, job: True)
    monkeypatch.setattr(hold, "named", lambda api, text: [WAITS if text == "7" else RUNS])
    assert hold.notify(["8", "hello"]) == 0
    with pytest.raises(Usage, match="job notify failure: Requested operation is presently disabled"):
        hold.notify(["7", "hello"])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("jobid=99.0 requeue=x", "scontrol: error: Invalid Requeue value: x"),
        ("jobid=10 reqnodelist=cn1", "scontrol: error: Job resizing not supported for job arrays"),
        ("jobid=10_[1-2] numnodes=2", "scontrol: error: Invalid job ID 10_[1-2]"),
        ("jobid=7,8 nodelist=cn1", "scontrol: error: Invalid job ID 7,8"),
    ],
)
def test_values_and_single_lines_are_checked_before_jobs_are_changed(
    line: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes.Api, "open", lambda: None)
    monkeypatch.setattr(changes, "with_ended", lambda api, part: list(TASKS))
    with pytest.raises(Usage) as error:
        changes.update(line.split())
    assert error.value.text == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-Q wait_job 7", "scontrol: Job 7 no longer running\n"),
        ("-Q checkpoint", "invalid keyword: checkpoint\n"),
        ("-Q update jobid=7 network=x", "Update of this parameter is not supported: network=x\nRequest aborted\n"),
        ("-Q hold x", ""),
    ],
)
def test_what_quiet_does_not_keep_back(line: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(hold.Api, "open", lambda: None)
    monkeypatch.setattr(hold, "jobs", lambda api, numbers, **_: [WAITS])
    assert scontrol.run(line.split())
    assert capsys.readouterr().err == text


def test_an_empty_word_is_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """`scontrol hold "$JOB"` of a script whose variable is empty must not hold all jobs."""
    monkeypatch.setattr(names, "jobs", lambda api, numbers=None, **_: [WAITS, RUNS])
    api: Any = None
    assert [names.named(api, text) for text in ("", ",", "jobid=")] == [[], [], []]
    assert names.named(api, "7") == [WAITS]


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("-Q create", 1, "too few arguments for create keyword\n"),
        ("-Q write", 1, "too few arguments for keyword:write\n"),
        ("-Q errnumstr x", 1, "numeric arguments required for keyword:errnumstr\n"),
        ("-Q delete x", 1, "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'\n"),
        ("-Q release", 1, ""),
        ("-Q show nothing", 1, ""),
        ("-Q all x", 0, ""),
        ("-Q requeue 9", 1, ""),
        ("-Q notify 0 x", 1, "Invalid job_id 0job notify failure: No error\n"),
    ],
)
def test_quiet_keeps_back_what_is_wrong_with_jobs(
    line: str, status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(hold.Api, "open", lambda: None)
    monkeypatch.setattr(names, "jobs", lambda api, numbers, **_: [])
    assert scontrol.run(line.split()) == status
    assert capsys.readouterr().err == text


PAIR = [
    Job(number=11, ask=replace(PLAIN, array=10, task=1), state="PENDING", held=True),
    Job(number=12, ask=replace(PLAIN, array=10, task=2), state="PENDING", held=True),
]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("suspend 7,x", "Invalid job id specified for job 7,x\n"),
        ("suspend 7,7", "Access/permission denied for job 7\n" * 2),
        ("resume 7,9", "Access/permission denied for job 7\nUnexpected message received for job 9\n"),
        ("suspend 10_3", "Access/permission denied for job 10_3\n"),
        ("suspend 9_[1-2]", "Unexpected message received for job 9_1-2\n"),
        ("requeue 10_2", "10_1-2: Job is pending execution\n"),
        ("requeue 9_[1-2],9", "9_1-2: Invalid job id specified\nInvalid job id specified for job 9\n"),
        ("requeuehold 7.0", "Invalid job id specified for job 7.0\n"),
    ],
)
def test_each_id_between_commas_is_answered(line: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    every = [WAITS, *PAIR]

    def found(api: object, numbers: list[int], **_: object) -> list[Job]:
        return [job for job in every if job.base in numbers]

    monkeypatch.setattr(hold.Api, "open", lambda: None)
    monkeypatch.setattr(hold.os, "getuid", lambda: 1000)
    monkeypatch.setattr(hold.running, "may", lambda api, job: True)
    for place in (hold, names):
        monkeypatch.setattr(place, "jobs", found)
    assert scontrol.run(line.split()) == 1
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("7,x", "Job step 7. not found"),
        ("7.x", "Job step 7.0 not found"),
        ("7.3", "Job step 7.3 not found"),
        ("10_[1-2].3", "Job step 10_0. not found"),
        ("10_2.3", "Job step 10_2. not found"),
        ("x.1", "No job steps in the system"),
    ],
)
def test_show_step_reads_the_beginning_of_an_id(
    text: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(show.Api, "open", lambda: None)
    monkeypatch.setattr(show, "jobs", lambda api, numbers: [WAITS, *PAIR])
    assert show.show(["step", text], False, False) == int(text != "x.1")
    assert capsys.readouterr().out == shown + "\n"


@pytest.mark.parametrize(
    ("line", "mine", "text"),
    [
        ("jobid=7,9,9_1 name=x", True, "Invalid job id specified for job 9\n9_1: Invalid job id specified\n"),
        ("jobid=7 deadline=tomorrow", True, "Access/permission denied for job 7\n"),
        ("jobid=7 contiguous=1", False, "Invalid user id for job 7\n"),
        ("jobid=7 admincomment=x", False, "Access/permission denied for job 7\n"),
        ("jobid=7 burstbuffer=x", False, "Requested operation not supported on this system for job 7\n"),
    ],
)
def test_update_answers_for_each_job(
    line: str, mine: bool, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def found(api: object, numbers: list[int], **_: object) -> list[Job]:
        return [job for job in (WAITS, RUNS) if job.number in numbers]

    monkeypatch.setattr(changes.Api, "open", lambda: None)
    monkeypatch.setattr(names, "jobs", found)
    monkeypatch.setattr("phalanx.slurm.jobs.ended.recorded_of", lambda numbers: [])
    monkeypatch.setattr(changes, "refusal", lambda api, job: "" if mine else "Invalid user id")
    monkeypatch.setattr(changes, "_update_one", lambda *_: None)
    within = asked.Around(Site(), None, False)  # type: ignore[arg-type]  # no hardware is asked
    monkeypatch.setattr(asked, "around", lambda api, job, said: within)
    assert changes.update(line.split()) == 1
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("text", ["", "0", "9"])
def test_nodes_of_no_job_cannot_be_changed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes.Api, "open", lambda: None)
    monkeypatch.setattr(names, "jobs", lambda api, numbers, **_: [])
    monkeypatch.setattr("phalanx.slurm.jobs.ended.recorded_of", lambda numbers: [])
    with pytest.raises(Usage) as error:
        changes.update([f"jobid={text}", "reqnodelist=cn1"])
    assert error.value.text == (
        f"scontrol: error: Could not load state information for job {text}: Invalid job id specified"
    )


def test_only_administrators_change_a_partition_even_to_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes.Api, "open", lambda: None)
    monkeypatch.setattr(nodes.site, "load", lambda api: Site(partitions=[Partition(name="p", state="DOWN")]))
    monkeypatch.setattr(nodes, "is_administrator", lambda here: False)
    for line in ("part=p state=down", "part=nowhere state=down"):
        with pytest.raises(Usage) as error:
            changes.update(line.split())
        assert error.value.text == "slurm_update error: Invalid user id"


def test_quiet_does_not_print_that_there_is_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(show.Api, "open", lambda: None)
    monkeypatch.setattr(show.reservations, "reservations", lambda api: [])
    assert [scontrol.run(["show", "res"]), scontrol.run(["-Q", "show", "res"])] == [0, 0]
    assert scontrol.run(["show", "res", ""]) == 1
    assert capsys.readouterr().out == "No reservations in the system\nReservation  not found\n"


@pytest.mark.parametrize(
    ("before", "value", "shown"),
    [  # NumNodes of a job that waits, before and after `numnodes=VALUE`
        ("2", "3", "3"), ("2", "2-3", "2-3"), ("2-3", "2", "2-3"), ("2-3", "3-4", "3-4"),
        ("2-3", "4", "Node count specification invalid"), ("2", "3-2", "Node count specification invalid"),
    ],
)  # fmt: skip
def test_a_single_count_of_nodes_leaves_the_most_as_it_is(before: str, value: str, shown: str) -> None:
    least, _, most = before.partition("-")
    ask = replace(PLAIN, nodes=int(least), max_nodes=int(most or least), said_nodes=bool(most), tasks=2)
    within = asked.Around(Site(), None, True)  # type: ignore[arg-type]  # no hardware is asked
    try:
        asked.change(replace(WAITS, ask=ask), ask, "numnodes", value, within)
    except asked.Refusal as error:
        assert str(error) == shown  # noqa: PT017 (one of several outcomes)
        return
    assert (f"{ask.nodes}-{ask.max_nodes}" if ask.said_nodes else str(ask.nodes)) == shown


@pytest.mark.parametrize(("value", "why"), [("n", ""), ("m", "Invalid node name specified"), ("", "Invalid node name")])
def test_a_job_that_runs_keeps_nodes_of_its_own(value: str, why: str) -> None:
    hardware: Any = type("Hardware", (), {"names": {"n", "m"}})
    within = asked.Around(Site(), hardware, True)
    if not why:
        asked.change(RUNS, replace(PLAIN), "reqnodelist", value, within)
        return
    with pytest.raises(asked.Refusal, match=why):
        asked.change(RUNS, replace(PLAIN), "reqnodelist", value, within)


def test_write_config(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(show.Api, "open", lambda: None)
    here = Site(cluster="lab", partitions=[Partition(name="p", nodes=["n1", "n2"], default=True, max_min=60)])
    monkeypatch.setattr(show.site, "load", lambda api: here)
    monkeypatch.setattr(show.times, "moment", lambda at_s: "NOW")
    assert scontrol.run(["write", "config", str(tmp_path / "a")]) == 0
    assert scontrol.run(["write", "config", str(tmp_path / "no" / "a")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"Slurm config saved to {tmp_path}/a.NOW\n"
    assert printed.err == f"Could not create file {tmp_path}/no/a.NOW: No such file or directory\n"
    again, _ = read_conf((tmp_path / "a.NOW").read_text())
    assert (again.cluster, again.partitions[0].max_min, again.partitions[0].nodes) == ("lab", 60, ["n1", "n2"])


def test_ids_that_show_job_reads(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(show.Api, "open", lambda: None)
    monkeypatch.setattr(show, "_all", lambda api, asked: [job for job in PAIR if asked.has(job)])
    monkeypatch.setattr(show, "jobs", lambda api, numbers, **_: PAIR)
    assert show.show(["job", "10_"], False, False) == 1
    assert capsys.readouterr().out == "Job 10_0 not found\n"
    with pytest.raises(Usage, match="scontrol_print_job error: Invalid job id"):
        show.show(["job", "10_[1-2]"], False, False)


@pytest.mark.parametrize(("value", "requeues"), [("5", True), ("1", True), ("0", False), ("", False)])
def test_any_number_but_0_lets_a_job_be_requeued(value: str, requeues: bool) -> None:
    ask, nothing = replace(PLAIN, requeue=not requeues), asked.Around(Site(), None, False)  # type: ignore[arg-type]  # no hardware is asked
    assert changes._require_readable({"requeue": value})
    changes._change(None, WAITS, ask, {"requeue": value}, nothing)  # type: ignore[arg-type]  # no server is asked
    assert ask.requeue == requeues
