"""Find the jobs with an id or a name from the command line of scontrol."""

from __future__ import annotations

import os
import pwd
import re
import time

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.jobs.chosen import Chosen, NoJob, read_id, read_ids
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.options import Usage, say


def named(api: ApiClient, text: str) -> list[JobInfo]:
    """Return the jobs with this id whose objects exist. Raises Usage if there are none."""
    try:
        ids = tuple(read_ids(text.removeprefix("jobid=").removeprefix("JobId=")))
    except NoJob:
        raise Usage(f"Invalid job id specified for job {text}") from None
    if not ids:
        return []  # as in Slurm, an empty word names no job
    asked = Chosen(ids=ids)
    found = [job for job in jobs(api, asked.numbers) if asked.has(job)]
    if not found:
        raise Usage(f"Invalid job id specified for job {text}")
    # The tasks of an array are sorted, because the task whose throttle is raised first starts first.
    return sorted(found, key=lambda job: (job.base, -1 if job.ask.task is None else job.ask.task))


def parts_of(text: str) -> list[str]:
    """Return the job ids in a comma-separated list. Raises Usage if one of them is not a job id."""
    parts = [one for one in re.split(r",(?![^\[]*\])", text) if one]
    try:
        for one in parts:
            read_id(one)
    except NoJob:
        raise Usage(f"Invalid job id specified for job {text}") from None
    return parts


def without_job(part: str, why: str = "Invalid job id specified") -> str:
    """Return Slurm's message about an id for which no job exists."""
    plain = part.replace("[", "").replace("]", "")
    return f"{plain}: {why}" if "_" in plain else f"{why} for job {plain}"


def line_of(api: ApiClient, job: JobInfo) -> JobInfo:
    """Return the job with the tasks of its array that squeue shows in the same line (`others`)."""
    if job.ask.task is None:
        return job
    lines = shown_together(named(api, str(job.base)))
    return next((one for one in lines if job.ask.task in (one.ask.task, *one.others)), job)


def with_ended(api: ApiClient, text: str) -> list[JobInfo]:
    """Return the jobs with an id, or with the name of `name=…`, including jobs that ended recently. A name selects only
    jobs of the caller. Raises Usage."""
    key, equals, name = text.partition("=")
    if equals and key.lower() in ("name", "jobname"):
        from phalanx.slurm.jobs.ended import ended

        me = pwd.getpwuid(os.getuid()).pw_name
        live = jobs(api, users=[me])
        there = {job.number for job in live}
        late = [job for job in ended(time.time() - site.load(api).keep_s) if job.number not in there]
        names = name.split(",")
        found = [job for job in (*live, *late) if job.ask.name in names and job.ask.user == me]
        return sorted(found, key=lambda job: job.number)
    try:
        return named(api, text)
    except Usage:
        from phalanx.slurm.jobs.ended import recorded_of

        word = text.removeprefix("jobid=").removeprefix("JobId=")
        found = [job for job in recorded_of([int(word)]) if job.number == int(word)] if _is_number(word) else []
        if not found:
            raise
        return found


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and 0 < int(word) < 1 << 31


def refusal(api: ApiClient, job: JobInfo) -> str:
    """Return Slurm's reason if the caller may not change the job; "" if the caller may."""
    from phalanx.slurm.control import running

    return "" if running.may(api, job) else "Invalid user id"


def say_of(job: JobInfo, why: str) -> None:
    """Print the reason why a change of the job, or of tasks of an array, failed, in the form that Slurm prints."""
    say(f"{job.id.replace('[', '').replace(']', '')}: {why}" if job.ask.task is not None else f"{why} for job {job.id}")
