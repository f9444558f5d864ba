"""The verbs show and write of scontrol.

The first part shows the configuration and the licenses of the site. The second part shows jobs, steps, nodes,
partitions, reservations and host lists. The third part writes the script of a job, or the configuration of the site, to
a file.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import SECRETS, ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.cluster.verbs.named import named
from phalanx.slurm.control import reservations
from phalanx.slurm.jobs import pages
from phalanx.slurm.jobs.chosen import Chosen, Id, NoJob, read_ids
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.names import secret_of
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Usage, say

if TYPE_CHECKING:
    from phalanx.slurm.jobs.nodes import NodeInfo


def show_config() -> int:
    """Print the settings of slurm.conf that Phalanx uses, in the form of `scontrol show config`."""
    api = ApiClient.open()
    here = site.load(api)
    print(f"Configuration data as of {times.moment(time.time())}")
    for name, text in settings(here):
        print(f"{name:<23} = {text}")
    api.get("/version")
    print("\nSlurmctld(primary) at the API server is UP")
    return 0


def settings(here: Site) -> list[tuple[str, str]]:
    weights = here.weights
    tres = ",".join(f"{name}={weight:g}" for name, weight in weights.tres.items())
    found = {
        "AccountingStorageEnforce": "associations,limits,qos",
        "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu",
        "ClusterName": here.cluster, "Epilog": here.epilog, "FirstJobId": str(here.first_job), "GresTypes": "gpu",
        "JobRequeue": "1", "KillWait": f"{here.kill_wait_s} sec",
        "Licenses": ",".join(f"{name}:{count}" for name, count in sorted(here.licenses.items())),
        "MailProg": here.mail_program, "MaxArraySize": str(here.max_array), "MinJobAge": f"{here.keep_s} sec",
        "PriorityFavorSmall": "Yes" if weights.favor_small else "No",
        "PriorityFlags": "SMALL_RELATIVE_TO_TIME" if weights.relative_to_time else "",
        "PriorityMaxAge": times.long_elapsed(weights.max_age_s),
        "PriorityType": "priority/multifactor" if weights.any else "priority/basic",
        "PriorityWeightAge": str(weights.age), "PriorityWeightAssoc": str(weights.assoc),
        "PriorityWeightFairShare": str(weights.fair_share), "PriorityWeightJobSize": str(weights.job_size),
        "PriorityWeightPartition": str(weights.partition), "PriorityWeightQOS": str(weights.qos),
        "PriorityWeightTRES": tres, "Prolog": here.prolog, "SchedulerType": "phalanx",
        "SLURM_VERSION": "22.05.8",
    }  # fmt: skip
    return [(name, text or "(null)") for name, text in sorted(found.items(), key=lambda one: one[0].lower())]


def show_licenses() -> int:
    api = ApiClient.open()
    here = site.load(api)
    if not here.licenses:
        print("No licenses configured in Slurm.")
        return 0
    used: dict[str, int] = {}
    for job in jobs(api, places=False):
        if job.state in ("RUNNING", "SUSPENDED") and job.ask.licenses:
            used[job.ask.licenses] = used.get(job.ask.licenses, 0) + 1
    for name, total in sorted(here.licenses.items()):
        taken = used.get(name, 0)
        print(f"LicenseName={name}\n    Total={total} Used={taken} Free={max(0, total - taken)} Reserved=0 Remote=no")
    return 0


# --- show -------------------------------------------------------------------------------------------------------------

# The entities of `show`. As in Slurm, an abbreviation selects the first entity that begins with it.
_ENTITIES = (
    "aliases", "assoc_mgr", "bbstat", "burstbuffer", "config", "daemons", "dwstat", "federation", "frontend",
    "hostnames", "hostlist", "hostlistsorted", "job", "licenses", "nodes", "partitions", "reservations", "slurmd",
    "steps", "topology",
)  # fmt: skip
_OTHERS = {"jobs": "job", "jobid": "job", "hostname": "hostnames", "bb": "burstbuffer", "topo": "topology"}


_BY_ONE_LETTER = "aj"


def _entity(typed: str) -> str:
    """Return the entity with this name or abbreviation; "" if there is none."""
    name = _OTHERS.get(typed, typed)
    if name in _ENTITIES:
        return name
    if len(name) == 1 and name not in _BY_ONE_LETTER:
        return ""
    return next((one for one in _ENTITIES if name and one.startswith(name)), "")


def show(words: Sequence[str], oneline: bool, details: bool) -> int:
    if not words:
        raise Usage("too few arguments for keyword:show")
    what, *names = words
    if len(names) > 1 or (names and what.lower() in _ALONE):
        raise Usage("too many arguments for keyword:show")
    name = names[0] if names else ""
    if "=" in what:
        what, _, name = what.partition("=")
    match _entity(what.lower()):
        case "hostnames":
            return _hostnames(name)
        case "hostlist":
            print(compress(name.split(",")) if _host_list(names) and name else "")
        case "hostlistsorted":
            print(compress(expand(name), ordered=True) if _host_list(names) else "")
        case "job":
            return _show_jobs(name, oneline, details)
        case "nodes":
            return 0 if "" in names else _show_nodes(name, oneline, details)
        case "partitions":
            return _show_partitions(name if name or "" in names else None, oneline)
        case "reservations":
            return _show_reservations(name if name or "" in names else None, oneline)
        case "steps":
            return _show_steps(name, oneline)
        case "config":
            return show_config()
        case "licenses":
            return show_licenses()
        case "topology":
            wrong = f"Topology information contains no switch or node named {name}"
            say(f"scontrol: error: {wrong if name else 'No topology information available'}")
        case "daemons":
            print("slurmctld slurmd")
        case "aliases":
            print("" if names else " ".join(node.name for node in _nodes()))
        case "burstbuffer" | "bbstat" | "federation" | "dwstat":
            return 0  # Phalanx has no such entities
        case "frontend":
            print(f"Node {name} not found" if name else "No nodes in the system")
            return int(bool(name))
        case "slurmd":
            raise Usage(
                "scontrol: error: slurm_slurmd_info: Connection refused\nslurm_load_slurmd_status: Connection refused"
            )
        case "":
            raise Usage(f"invalid entity:{what} for keyword:show ")
        case _:
            raise Usage(f"scontrol: error: show {what} is not supported by Phalanx (docs/guide/slurm.md)")
    return 0


_ALONE = ("daemons",)


def _nodes() -> list[NodeInfo]:
    from phalanx.slurm.jobs.nodes import nodes

    return nodes(ApiClient.open())


def _host_list(names: Sequence[str]) -> bool:
    """Return True if a list of hosts was given. Raises Usage otherwise."""
    if not names:
        print("scontrol [<OPTION>] [<COMMAND>]", flush=True)
        raise Usage("")
    return True


def _hostnames(text: str) -> int:
    text = text or os.environ.get("SLURM_NODELIST", "")
    if not text:
        say("scontrol: error: host list is empty")
        return 0
    print("\n".join(expand(text)))
    return 0


def _show_jobs(text: str, oneline: bool, details: bool) -> int:
    api = ApiClient.open()
    if "," in text or "[" in text:
        raise Usage("scontrol_print_job error: Invalid job id specified")
    text += "0" if re.fullmatch(r"\d+_", text) else ""
    try:
        ids = tuple(one for one in read_ids(text) if one.number)  # as in Slurm, job 0 stands for all jobs
    except NoJob:
        raise Usage("scontrol_print_job error: Invalid job id specified") from None
    found = _all(api, Chosen(ids=ids))
    if ids and not found:
        if ids[0].tasks is not None and jobs(api, [ids[0].number], places=False):
            print(f"Job {text} not found")
            return 1
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


def _all(api: ApiClient, asked: Chosen) -> list[JobInfo]:
    """Return the selected jobs: jobs whose objects exist, and jobs that ended recently."""
    from phalanx.slurm.jobs.ended import ended

    found = [job for job in jobs(api, asked.numbers) if asked.has(job)]
    there = {job.number for job in found}
    since_s = time.time() - site.load(api).keep_s
    late = [job for job in ended(since_s) if job.number not in there and asked.has(job)]
    return sorted([*found, *late], key=lambda job: job.number)


def _show_nodes(text: str, oneline: bool, details: bool) -> int:
    from phalanx.slurm.commands.cluster.sinfo import see
    from phalanx.slurm.jobs.nodes import Used, used

    api = ApiClient.open()
    here = site.load(api)
    found, wanted, held = see(api, here), expand(text), used(api)
    details = details and any(one.node.gpus for one in found)
    for name in wanted or [one.node.name for one in found]:
        seen = next((one for one in found if one.node.name == name), None)
        if seen is None:
            print(f"Node {name} not found")
            return 1
        names = [one.name for one in here.all if not one.nodes or name in one.nodes]
        shaped = msgspec.structs.replace(seen.node, shape=here.sockets.get(name, ""))
        counted = "gres/gpu" if here.counts_gpus else ""
        _page(pages.node(shaped, seen.state, held.get(name, Used()), names, counted, details), oneline)
    return 0


def _show_partitions(text: str | None, oneline: bool) -> int:
    from phalanx.slurm.jobs.nodes import nodes, with_cloud

    api = ApiClient.open()
    here = site.load(api)
    every = with_cloud(here, nodes(api))
    found = [one for one in here.all if text is None or one.name == text]
    if not found:
        print(f"Partition {text} not found")
        return 1
    for partition in found:
        within = [node for node in every if not partition.nodes or node.name in partition.nodes]
        _page(pages.partition(partition, within, "gres/gpu" if here.counts_gpus else ""), oneline)
    return 0


def _show_reservations(text: str | None, oneline: bool) -> int:
    found = [one for one in reservations.reservations(ApiClient.open()) if text is None or one.name == text]
    if not found:
        print("No reservations in the system" if text is None else f"Reservation {text} not found")
        return int(text is not None)
    for one in found:
        _page(reservations.page(one), oneline)
    return 0


_STEP = re.compile(r"(\d+)(_(\d*))?(?:\.(\w*))?")
_NAMED_STEPS = ("batch", "extern", "interactive")


def _show_steps(text: str, oneline: bool) -> int:
    """Print the running steps that an id such as `12`, `12.3` or `12_1` names, and return the exit code. As in Slurm,
    text after the id is ignored, and a text without a number selects all steps."""
    read = _STEP.match(text)
    number, task, step = (int(read[1]), read[3], read[4] or "") if read else (0, None, "")
    if step and not step.isdecimal() and step not in _NAMED_STEPS:
        step = "0"
    known = jobs(ApiClient.open(), [number] if number else None)
    if number and not known:
        raise Usage("slurm_get_job_steps error: Invalid job id specified")
    asked = Chosen(ids=(Id(number=number, tasks=None if task is None else frozenset({int(task or 0)})),))
    found = [job for job in known if job.state in ("RUNNING", "SUSPENDED") and (not number or asked.has(job))]
    shown = [(job, name) for job in found for name in pages.steps(job) if not step or name == step]
    if not shown:
        typed = f"{number}.{step}" if task is None else f"{number}_{int(task or 0)}."
        print(f"Job step {typed} not found" if number else "No job steps in the system")
        return int(bool(number))
    for job, name in shown:
        _page(pages.step(job, name), oneline)
    return 0


def _page(lines: Sequence[Sequence[str]], oneline: bool) -> None:
    if oneline:
        print(" ".join(word for line in lines for word in line if word))
    else:
        print("\n".join(f"{'   ' if at else ''}{' '.join(line)}" for at, line in enumerate(lines)) + "\n")


# --- write ------------------------------------------------------------------------------------------------------------


def write(words: Sequence[str]) -> int:
    """Run `write batch_script JOB [FILE]`, which writes the script of a job to slurm-JOB.sh, to FILE, or to standard
    output (`-`); or run `write config [FILE]`."""
    if not words:
        raise Usage("too few arguments for keyword:write")
    if words[0] == "config":
        return _write_config(words[1] if len(words) > 1 else _CONFIG)
    if words[0] != "batch_script":
        raise Usage(f"invalid write argument:{words[0]}")
    if len(words) < 2:
        return 0
    api = ApiClient.open()
    try:
        [job, *_] = named(api, words[1])
    except Usage:
        say("job script retrieval failed: Invalid job id specified")
        return 0  # the exit code of Slurm in this case
    data = api.within(job.namespace).get(f"{SECRETS}/{secret_of(job.number, job.ask)}").get("data") or {}
    text = base64.b64decode(data.get("PHALANX_SCRIPT", "")).decode(errors="replace")
    target = words[2] if len(words) > 2 else f"slurm-{job.number}.sh"
    if target == "-":
        print(text, end="")
        return 0
    with open(target, "w") as file:
        file.write(text)
    print(f"batch script for job {job.number} written to {target}")
    return 0


_CONFIG = "/etc/slurm/slurm.conf"
_ADDED = ("SLURM_VERSION",)  # names that `show config` prints, and that are not settings of slurm.conf


def _write_config(file: str) -> int:
    """Write the settings and partitions of the site to the file FILE.TIME. As in Slurm, the exit code is 0 even if the
    file cannot be written."""
    here = site.load(ApiClient.open())
    lines = [f"{name}={text}" for name, text in settings(here) if text != "(null)" and name not in _ADDED]
    for one in here.all:
        nodes = compress(one.nodes, ordered=True) or "ALL"
        limits = f"MaxTime={times.limit(one.max_min, long=True)} State={one.state}"
        lines.append(f"PartitionName={one.name} Nodes={nodes} Default={'YES' if one.default else 'NO'} {limits}")
    path = f"{file}.{times.moment(time.time())}"
    try:
        with open(path, "x") as out:
            out.write("\n".join(lines) + "\n")
    except OSError as error:
        say(f"Could not create file {path}: {error.strerror}")
        return 0
    print(f"Slurm config saved to {path}")
    return 0
