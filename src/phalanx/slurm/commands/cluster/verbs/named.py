"""The live jobs that an id on the command line of scontrol means."""

from __future__ import annotations

from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.chosen import Chosen, NoJob, read_ids
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.options import Usage

DENIED = "Access/permission denied for job "


def named(api: Api, text: str) -> list[Job]:
    """The live jobs that an id means. Raises Usage."""
    try:
        ids = tuple(read_ids(text.removeprefix("jobid=").removeprefix("JobId=")))
    except NoJob:
        raise Usage(f"Invalid job id specified for job {text}") from None
    asked = Chosen(ids=ids)
    found = [job for job in jobs(api, asked.numbers) if asked.has(job)]
    if not found:
        raise Usage(f"Invalid job id specified for job {text}")
    # Sort the tasks of an array by index, because the task that gets a higher throttle first starts first.
    return sorted(found, key=lambda job: (job.base, -1 if job.ask.task is None else job.ask.task))
