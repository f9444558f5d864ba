"""`slurm/jobs/fields.py`: what squeue can show of a job."""

from __future__ import annotations

import msgspec

from phalanx.slurm.commands.jobs import squeue
from phalanx.slurm.jobs import fields, pages
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.fields import LETTERS
from phalanx.slurm.jobs.view import JobInfo
from tests.slurm.test_command_lines import ask


def test_of_several_partitions_those_that_may_run_it_give_their_nodes() -> None:
    found = ask("-p wide,batch").ask
    assert (found.partition, found.partitions, found.usable) == ("wide", ["wide", "batch"], ["wide", "batch"])
    assert ask("-p wide,batch -N3").ask.usable == ["batch"]
    assert (ask("-p closed,batch").ask.partition, ask("-p closed,batch").ask.hold) == ("batch", "")
    waiting = JobInfo(number=1, ask=found, state="PENDING")
    assert (
        LETTERS["P"].show(waiting),
        "Partition=wide,batch " in "\n".join(" ".join(x) for x in pages.job(waiting)),
    ) == (
        "wide,batch",
        True,
    )
    assert LETTERS["P"].show(JobInfo(number=1, ask=found, state="RUNNING", start_s=1.0)) == "wide"


def test_formats_with_widths_and_unknown_letters() -> None:
    columns, wrong = fields.by_letters("[%10j][%.10j][%2j]%! %%")
    assert fields.heading(columns) == "[NAME      ][      NAME][NA]%! "  # measured, 22.05: %% is nothing
    assert wrong == ["!"]
    columns, wrong = fields.by_names("Name:8,UserName:.6,NoSuch,State:|")
    assert (fields.heading(columns), wrong) == ("NAME      USERSTATE|", ["NoSuch"])
    assert fields.heading(fields.by_letters(squeue.DEFAULT)[0]) == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    )


def test_names_of_what_a_job_has_not() -> None:
    columns, wrong = fields.by_names("system_comment:3,prefer:8,origin:3")
    line = fields.line(columns, JobInfo(number=1, ask=ask("").ask, state="PENDING"))
    assert (fields.heading(columns), line, wrong) == ("SYSPREFER  ORI", "   (null)  NA ", [])


def test_a_null_that_does_not_fit_is_empty() -> None:
    waiting = JobInfo(number=1, ask=ask("").ask, state="PENDING")
    shown = fields.line(fields.by_letters("%5E|%E|%6k|%.10f")[0], waiting)
    assert shown == "     |(null)|(null)|    (null)"  # measured, 22.05


def test_what_is_left_of_an_array_is_one_line_and_one_page() -> None:
    waiting = Ask(name="a", user="u", uid=1, gid=1, group="g", account="lab", partition="p", array=7, throttle=2,
                  stdout="o-%a")  # fmt: skip
    tasks = [
        JobInfo(
            number=8 + at, ask=msgspec.structs.replace(waiting, task=at), state="PENDING", reason="JobArrayTaskLimit"
        )
        for at in (3, 4, 5)
    ]
    runs = JobInfo(number=8, ask=msgspec.structs.replace(waiting, task=1), state="RUNNING", start_s=1.0)
    held = JobInfo(number=9, ask=msgspec.structs.replace(waiting, task=2), state="PENDING", reason="JobHeldUser")
    shown = list(fields.shown_together([runs, held, *tasks]))
    assert [(job.id, LETTERS["A"].show(job), LETTERS["K"].show(job)) for job in shown] == [
        ("7_1", "8", "1"), ("7_2", "7", "2"), ("7_[3-5%2]", "7", "3-5%2"),
    ]  # fmt: skip
    page = [" ".join(words) for words in pages.job(shown[2])]
    assert page[0] == "JobId=7 ArrayJobId=7 ArrayTaskId=3-5%2 ArrayTaskThrottle=2 JobName=a"
    assert "StdOut=o-4294967294" in page
