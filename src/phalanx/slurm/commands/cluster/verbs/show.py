"""scontrol show: jobs, steps, nodes, partitions, reservations, host lists, the configuration."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgspec

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.configured import show_config, show_licenses
from phalanx.slurm.control import reservations
from phalanx.slurm.jobs import pages
from phalanx.slurm.jobs.chosen import Chosen, NoJob, read_ids
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Usage, say

_NOT_SHOWN = ("assoc_mgr", "assoc", "burstbuffer", "bb", "dwstat", "federation", "fed", "frontend", "slurmd")


def show(words: Sequence[str], oneline: bool, details: bool) -> int:
    if not words:
        raise Usage("too few arguments for keyword:show")
    what, *names = [*words, ""]
    name = names[0] if names else ""
    match what.lower():
        case "hostnames" | "hostname":
            return _hostnames(name)
        case "hostlist":
            print(compress(name.split(",")))
        case "hostlistsorted":
            print(compress(expand(name), ordered=True))
        case "job" | "jobs" | "jobid":
            return _show_jobs(name, oneline, details)
        case "node" | "nodes":
            return _show_nodes(name, oneline)
        case "partition" | "partitions":
            return _show_partitions(name, oneline)
        case "reservation" | "reservations" | "res":
            return _show_reservations(name, oneline)
        case "step" | "steps":
            return _show_steps(name, oneline)
        case "config":
            return show_config()
        case "licenses" | "license" | "lic":
            return show_licenses()
        case "topology" | "topo":
            raise Usage("scontrol: error: No topology information available")
        case "daemons":
            print("")
        case "aliases":
            print("\n".join(expand(name)))
        case _ if what.lower() not in _NOT_SHOWN:
            raise Usage(f"invalid entity:{what} for keyword:show ")
        case _:
            raise Usage(f"scontrol: error: show {what} is not supported by Phalanx (docs/guide/slurm.md)")
    return 0


def _hostnames(text: str) -> int:
    text = text or os.environ.get("SLURM_NODELIST", "")
    if not text:
        say("scontrol: error: host list is empty")
        return 0
    print("\n".join(expand(text)))
    return 0


def _show_jobs(text: str, oneline: bool, details: bool) -> int:
    api = Api.open()
    try:
        ids = tuple(read_ids(text))
    except NoJob:
        raise Usage("scontrol_print_job error: Invalid job id specified") from None
    found = _all(api, Chosen(ids=ids))
    if ids and not found:
        if ids[0].tasks is not None and jobs(api, [ids[0].number], places=False):
            print(f"Job {text} not found")
            return 0
        raise Usage("slurm_load_jobs error: Invalid job id specified")
    if not any(one.tasks is not None for one in ids):
        found = list(
            shown_together(sorted(found, key=lambda job: (job.base, job.state != "PENDING", job.ask.task or 0)))
        )
    if not found:
        print("No jobs in the system")
    for job in found:
        _page(pages.job(job, details=details), oneline)
    return 0


def _all(api: Api, asked: Chosen) -> list[Job]:
    """Return the jobs that exist, and jobs that ended recently."""
    from phalanx.slurm.jobs.ended import ended

    found = [job for job in jobs(api, asked.numbers) if asked.has(job)]
    there = {job.number for job in found}
    since_s = time.time() - site.load(api).keep_s
    late = [job for job in ended(since_s) if job.number not in there and asked.has(job)]
    return sorted([*found, *late], key=lambda job: job.number)


def _show_nodes(text: str, oneline: bool) -> int:
    from phalanx.slurm.commands.cluster.sinfo import see

    api = Api.open()
    here, found, wanted = site.load(api), see(api), expand(text)
    for name in wanted or [one.node.name for one in found]:
        seen = next((one for one in found if one.node.name == name), None)
        if seen is None:
            print(f"Node {name} not found")
            return 1
        names = [one.name for one in here.all if not one.nodes or name in one.nodes]
        shaped = msgspec.structs.replace(seen.node, shape=here.sockets.get(name, ""))
        _page(pages.node(shaped, seen.state, seen.used, names), oneline)
    return 0


def _show_partitions(text: str, oneline: bool) -> int:
    from phalanx.slurm.jobs.nodes import nodes

    api = Api.open()
    here, every = site.load(api), nodes(api)
    found = [one for one in here.all if not text or one.name == text]
    if not found:
        print(f"Partition {text} not found")
        return 1
    for partition in found:
        within = [node for node in every if not partition.nodes or node.name in partition.nodes]
        _page(pages.partition(partition, within), oneline)
    return 0


def _show_reservations(text: str, oneline: bool) -> int:
    found = [one for one in reservations.reservations(Api.open()) if not text or one.name == text]
    if not found:
        print(f"Reservation {text} not found" if text else "No reservations in the system")
        return int(bool(text))
    for one in found:
        _page(reservations.page(one), oneline)
    return 0


def _show_steps(text: str, oneline: bool) -> int:
    base, _, step = text.partition(".")
    try:
        ids = tuple(read_ids(base))
    except NoJob:
        raise Usage("Invalid job/step id specified") from None
    found = [job for job in jobs(Api.open(), Chosen(ids=ids).numbers) if Chosen(ids=ids).has(job) and job.start_s]
    shown = [(job, name) for job in found for name in pages.steps(job) if not step or name == step]
    if not shown:
        raise Usage(f"Job step {text} not found" if step else "No job steps in the system")
    for job, name in shown:
        _page(pages.step(job, name), oneline)
    return 0


def _page(lines: Sequence[Sequence[str]], oneline: bool) -> None:
    if oneline:
        print(" ".join(word for line in lines for word in line if word))
    else:
        print("\n".join(f"{'   ' if at and any(line) else ''}{' '.join(line)}" for at, line in enumerate(lines)) + "\n")
