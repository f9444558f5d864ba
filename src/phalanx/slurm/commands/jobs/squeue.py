"""squeue: show pending and running jobs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.chosen import Chosen, NoJob, chosen, is_user, read_states
from phalanx.slurm.jobs.view import LIVE, JobInfo, jobs
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import OptionReader, Usage, declare, require_cluster, say

OPTIONS = declare(
    "accounts,A= all,a array,r array-unique cluster|clusters,M= format,o= federation Format,O= help hide iterate,i= "
    "jobs,j=? json local long,l licenses,L= me name,n= noconvert node|nodes|nodelist,w= noheader,h partitions,p= "
    "priority,P qos,q= reservation,R= sib|sibling sort,S= start steps,s=? states,t= usage user|users,u= verbose,v "
    "version,V yaml"
)
ENVIRONMENT = {
    "SQUEUE_ACCOUNT": "accounts", "SQUEUE_FORMAT": "format", "SQUEUE_FORMAT2": "Format", "SQUEUE_NAMES": "name",
    "SQUEUE_PARTITION": "partitions", "SQUEUE_QOS": "qos", "SQUEUE_SORT": "sort", "SQUEUE_STATES": "states",
    "SQUEUE_USERS": "users", "SQUEUE_ARRAY": "array", "SQUEUE_ALL": "all", "SQUEUE_LICENSES": "licenses",
    "SQUEUE_CLUSTERS": "clusters", "SLURM_CLUSTERS": "clusters", "SQUEUE_PRIORITY": "priority",
}  # fmt: skip
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_PLAIN = {"accounts": "account", "partitions": "partition", "users": "user"}  # option -> its name in `jobs.chosen`
_READER = OptionReader("squeue", OPTIONS)
_USAGE = "Usage: squeue [OPTIONS]\n" + " ".join(f"--{one.spelled}" for one in OPTIONS)


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words, _check)
    said: dict[str, str | None] = dict(typed)
    if (last := [name for name, _ in typed if name in ("users", "me")][-1:]) and {"users", "me"} <= said.keys():
        del said["me" if last == ["users"] else "users"]
    for option in ("jobs", "steps"):  # the list of jobs or steps may be a word of its own
        if option in said and said[option] is None:
            said[option] = arguments.pop(0) if arguments else None
    if arguments:
        print(_USAGE)
        raise Usage(f"squeue: error: Unrecognized option: {arguments[0]}")
    cluster_from = "--cluster"
    for name, option in ENVIRONMENT.items():
        if os.environ.get(name) and option not in said:
            if option in ("format", "Format") and ("format" in said or "Format" in said):
                continue
            said[option] = os.environ[name]
            cluster_from = name if option == "clusters" else cluster_from
    said |= {_PLAIN[name]: said[name] for name in _PLAIN if name in said}
    if "usage" in said or "help" in said:
        print(_USAGE)
        return 0
    if "long" in said and "format" in dict(typed):
        raise Usage(
            "squeue: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
        )
    every_s = _every_s(said.get("iterate"))
    if "yaml" in said:
        raise Usage("squeue: error: --yaml is not supported by Phalanx: --json is (docs/guide/slurm.md)")
    api = ApiClient.open()
    if (clusters := said.get("clusters")) is not None:
        own = site.load(api).cluster
        require_cluster("squeue", clusters, own, cluster_from)
        said["clusters"] = own
    while True:
        status = _show(api, said)
        if not every_s:
            return status
        time.sleep(every_s)


def _check(typed: Sequence[tuple[str, str | None]]) -> None:
    """Raise Usage if the value of the last option is invalid. `typed`: the options so far."""
    (name, text), before = typed[-1], {name for name, _ in typed}
    if name in ("format", "Format") and {"format", "Format"} <= before:
        one, other = ("-o (--format)", "-O (--Format)") if name == "format" else ("-O (--Format)", "-o (--format)")
        raise Usage(f"squeue: error: {one} is incompatible with {other}")
    if name == "clusters":
        require_cluster("squeue", text or "", site.load(ApiClient.open()).cluster)
    elif name in ("jobs", "states"):
        _asked({name: text})
    elif name == "iterate":
        _every_s(text)


def _every_s(text: str | None) -> float:
    if text is not None and (not text.isdecimal() or not int(text)):
        raise Usage(f"squeue: error: --iterate={text}")
    return float(text or 0)


def _show(api: ApiClient, said: Mapping[str, str | None]) -> int:
    asked = _asked(said)
    _require_known(api, said)
    if "noheader" not in said:
        _print_above(said)
    if "steps" in said:
        from phalanx.slurm.commands.jobs.squeue_steps import CHOOSING, read_steps, show_steps

        read_steps(said)
        chosen_by = {name: text for name, text in said.items() if name in CHOOSING}
        return show_steps([] if said.get("jobs") == "" else _found(api, chosen_by, _asked(chosen_by)), said)
    found = [] if said.get("jobs") == "" else _found(api, said, asked)
    found = [job for job in found if _is_of(job, said)]
    if asked.ids and not found and not _known(api, asked):
        raise Usage("slurm_load_jobs error: Invalid job id specified")
    if "json" in said:
        from phalanx.slurm.commands.jobs.document import document

        print(document(site.load(api).cluster, found))
        return 0
    if "array" not in said:
        found = fields.shown_together(found)
    if "start" in said:  # --start has columns of its own; -o replaces them, but -O does not
        said = {name: text for name, text in said.items() if name != "Format"}
    columns, wrong = fields.columns(said, START if "start" in said else LONG if "long" in said else DEFAULT)
    for letter in wrong:
        say(f"squeue: error: Invalid job format specification: {letter}")
    lines = []
    if "noheader" not in said:
        lines.append(fields.heading(columns))
    if lines:
        print("\n".join(lines), flush=True)
    if found := _sorted(found, said):
        print("\n".join(fields.line(columns, job) for job in found), flush=True)
    return 0


def _print_above(said: Mapping[str, str | None]) -> None:
    """Print the lines above the heading: the date with --long, and the cluster if -M names it."""
    if "long" in said and "json" not in said:
        print(time.strftime("%a %b %d %H:%M:%S %Y"), flush=True)
    if said.get("clusters") is not None:
        print(f"CLUSTER: {said['clusters']}", flush=True)


def _is_of(job: JobInfo, said: Mapping[str, str | None]) -> bool:
    """Return True if the job requests one of the licenses of --licenses, and is in one of the reservations of
    --reservation. An option that is not given matches every job."""
    licences, reservations = said.get("licenses"), said.get("reservation")
    if "" in (licences, reservations):
        return False  # an option with an empty list matches no job
    return (not licences or job.ask.licenses in licences.split(",")) and (
        not reservations or job.ask.reservation in reservations.split(",")
    )


def _require_known(api: ApiClient, said: Mapping[str, str | None]) -> None:
    """Report unknown users. Raises Usage for an unknown node."""
    for user in (said.get("user") or "").split(","):
        if user and not is_user(user):
            say(f"squeue: error: Invalid user: {user}\n")
    if text := said.get("nodelist"):
        from phalanx.slurm.jobs.nodes import nodes

        there = {node.name for node in nodes(api)}
        if missing := [name for name in expand(text) if name not in there]:
            raise Usage(f"squeue: error: Invalid node name {missing[0]}")


def _asked(said: Mapping[str, str | None]) -> Chosen:
    if any(number == "0" for number in (said.get("jobs") or "").split(",")):
        raise Usage("squeue: error: Invalid job id: 0")
    try:
        text = said.get("states")
        states = read_states(text) if text else frozenset(LIVE)
        if text == "":
            states = frozenset({""})
        if said.get("jobs"):  # the id of a step selects its job; `12;CLUSTER` is the output of sbatch --parsable -M
            # Slurm 22.05 parses `12_[1-2]` as task 0, because the text after the underscore does not begin with a
            # digit.
            said = {**said, "jobs": re.sub(r"_\[[^],]*\]", "_0", re.sub(r"[.;]\w+", "", said["jobs"] or ""))}
        if "steps" in said:
            states = None  # --states has no effect on steps, because only running jobs have steps
        found = chosen(said, states if states is not None else frozenset())
        return msgspec.structs.replace(found, any_case=True)
    except NoJob as error:
        raise Usage(f"squeue: error: Invalid job id: {error}") from None
    except KeyError as error:
        raise Usage(
            f"squeue: error: Invalid job state specified: {error.args[0]}\n"
            f"squeue: error: Valid job states include: {','.join(_STATES)}"
        ) from None


def _found(api: ApiClient, said: Mapping[str, str | None], asked: Chosen) -> list[JobInfo]:
    if "start" in said:
        found = jobs(api, asked.numbers, live=True, users=asked.users)
        found = [job for job in found if job.state == "PENDING" and asked.has(job)]
        _foretell(api, found)
        return found
    all_live = bool(asked.states) and asked.states <= set(LIVE)
    found = jobs(api, asked.numbers, live=all_live, users=asked.users)
    if not all_live:
        from phalanx.slurm.jobs.ended import ended

        there = {job.number for job in found}
        since_s = time.time() - site.load(api).keep_s
        found += [job for job in ended(since_s) if job.number not in there]
        found.sort(key=lambda job: job.number)
    return [job for job in found if asked.has(job)]


def _foretell(api: ApiClient, found: Sequence[JobInfo]) -> None:
    """Set the expected nodes (SCHEDNODES) of those pending jobs that need all nodes of their partition. For other jobs
    the expected nodes cannot be predicted."""
    from phalanx.slurm.jobs.nodes import nodes

    here, every = site.load(api), [node.name for node in nodes(api)]
    for job in found:
        partition = here.partition(job.ask.partition)
        usable = tuple(name for name in every if partition is None or not partition.nodes or name in partition.nodes)
        if job.expected_s is not None and job.ask.node_count == len(usable):
            job.schednodes = usable


def _known(api: ApiClient, asked: Chosen) -> bool:
    """Return whether one of the ids names a job that is live or has ended recently. In this case squeue prints no
    error."""
    if jobs(api, asked.numbers, places=False):
        return True
    from phalanx.slurm.jobs.ended import recorded

    since_s = time.time() - site.load(api).keep_s
    return any((asked.ids and job.base in {one.number for one in asked.ids}) or
               job.number in {one.number for one in asked.ids} for job in recorded(since_s))  # fmt: skip


_STATES = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
    "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "COMPLETING", "CONFIGURING", "RESIZING", "RESV_DEL_HOLD", "REQUEUED",
    "REQUEUE_FED", "REQUEUE_HOLD", "REVOKED", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED",
)  # fmt: skip
_PENDING_LAST = 1 << 40
# letter of --sort -> sort key; Slurm 22.05 does not sort by other letters of -o (measured)
_KEYS: dict[str, Callable[[JobInfo], Any]] = {
    "b": lambda job: "",
    "B": lambda job: job.nodes[0] if job.nodes else "",
    "c": lambda job: job.ask.cpus_per_task,
    "C": lambda job: job.cpus,
    "d": lambda job: job.ask.tmp_mib,
    "D": lambda job: job.ask.node_count,
    "e": lambda job: fields.end_s(job) or 0.0,
    "f": lambda job: job.ask.features,
    "g": lambda job: job.ask.group,
    "G": lambda job: job.ask.gid,
    "h": lambda job: fields.oversubscribes(job.ask),
    **dict.fromkeys("HIJOz", lambda job: ""),
    "i": lambda job: (job.base, -1 if job.ask.task is None else job.ask.task),
    "j": lambda job: job.ask.name,
    "l": lambda job: job.ask.limit_min if job.ask.limit_min is not None else _PENDING_LAST,
    "L": fields.left_s,
    "m": lambda job: job.ask.memory_mib or 0,
    "M": lambda job: job.elapsed_s,
    "n": lambda job: compress(job.ask.wanted),
    "N": lambda job: compress(job.nodes, ordered=True) or "~",
    "P": fields.shown_partition,
    "p": lambda job: job.priority,
    "Q": lambda job: job.priority,
    "S": lambda job: fields.start_s(job) or float(_PENDING_LAST),
    **dict.fromkeys("tT", lambda job: job.state),
    "u": lambda job: job.ask.user,
    "U": lambda job: job.ask.uid,
    "v": lambda job: job.ask.reservation,
    "V": lambda job: job.submit_s,
}


def _sorted(found: list[JobInfo], said: Mapping[str, str | None]) -> list[JobInfo]:
    """Return the jobs in the order of --sort, or else of partition, state and priority. Jobs with equal keys have the
    order in which Slurm's controller lists them. Raises Usage."""
    found = sorted(found, key=lambda job: (-(fields.start_s(job) or 0.0), job.live, -job.base, job.ask.task or 0))
    order = said.get("sort", "t,S" if "start" in said else "P,t,-p")
    for key in reversed((order or "").split(",")):
        word = key.strip().lstrip("+-")
        if not word:
            continue
        if word[0] not in _KEYS:
            raise Usage(f"squeue: error: Invalid sort specification: {word[0]}")
        if word[0] == "b":
            say("squeue: Invalid sort specification: b")
        falling = key.strip().startswith("-")
        if word[0] == "S" or (word[0] == "N" and not falling):
            found = _reversed(found)
        found = sorted(found, key=_KEYS[word[0]], reverse=falling)
    return found


def _reversed(found: Sequence[JobInfo]) -> list[JobInfo]:
    """Return the jobs in the reverse order. Pending tasks of the same array keep their order, because Slurm has a
    single record for all of them."""
    records = [[*tasks] for _, tasks in groupby(found, lambda job: job.base if job.state == "PENDING" else -job.own)]
    return [job for tasks in reversed(records) for job in tasks]
