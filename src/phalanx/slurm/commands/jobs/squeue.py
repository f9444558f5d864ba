"""squeue: what waits and what runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs import fields, pages
from phalanx.slurm.jobs.chosen import Chosen, NoJob, chosen, is_user, read_states
from phalanx.slurm.jobs.view import LIVE, SHORT, Job, jobs
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Reader, Usage, declare, say, unknown_cluster

OPTIONS = declare(
    "account,A= all,a array,r array-unique cluster= clusters,M= federation format,o= Format,O= help hide iterate,i= "
    "job,j= jobs= json licenses,L= local long,l me name,n= noconvert nodelist,w= noheader,h only-job-state "
    "partition,p= priority,P qos,q= reservation,R= sibling sort,S= start state= states,t= steps,s= usage user,u= "
    "verbose,v version,V yaml"
)
ENVIRONMENT = {
    "SQUEUE_ACCOUNT": "account", "SQUEUE_FORMAT": "format", "SQUEUE_FORMAT2": "Format", "SQUEUE_NAMES": "name",
    "SQUEUE_PARTITION": "partition", "SQUEUE_QOS": "qos", "SQUEUE_SORT": "sort", "SQUEUE_STATES": "states",
    "SQUEUE_USERS": "user", "SQUEUE_ARRAY": "array", "SQUEUE_ALL": "all", "SQUEUE_LICENSES": "licenses",
    "SQUEUE_CLUSTERS": "clusters", "SLURM_CLUSTERS": "clusters", "SQUEUE_PRIORITY": "priority",
}  # fmt: skip
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
_ALONE = ("-j", "--job", "--jobs", "-s", "--steps")
_READER = Reader("squeue", OPTIONS)


def run(words: Sequence[str]) -> int:
    words = list(words)
    if words and words[-1] in _ALONE:  # without a list, these mean all
        words[-1:] = [words[-1], ""]
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    for name, option in ENVIRONMENT.items():
        if os.environ.get(name) and option not in said:
            if option in ("format", "Format") and ("format" in said or "Format" in said):
                continue
            said[option] = os.environ[name]
    said["jobs"] = said.get("jobs", said.get("job"))
    said["states"] = said.get("states", said.get("state"))
    if "usage" in said or "help" in said:
        say("Usage: squeue [OPTIONS]\n" + " ".join(f"--{one.name}" for one in OPTIONS if not one.refused))
        return 0
    every_s = _every_s(said.get("iterate"))
    if "yaml" in said:
        raise Usage("squeue: error: --yaml is not supported by Phalanx: --json is (docs/guide/slurm.md)")
    api = Api.open()
    if cluster := said.get("clusters") or said.get("cluster"):
        own = site.load(api).cluster
        if cluster not in (own, "all"):
            raise Usage(unknown_cluster("squeue", cluster))
        print(f"CLUSTER: {own}")
    while True:
        status = _show(api, said)
        if not every_s:
            return status
        time.sleep(every_s)


def _every_s(text: str | None) -> float:
    if text is not None and (not text.isdigit() or not int(text)):
        raise Usage(f"squeue: error: --iterate={text}")
    return float(text or 0)


def _show(api: Api, said: Mapping[str, str | None]) -> int:
    asked = _asked(said)
    _require_known(api, said)
    found = _found(api, said, asked)
    if "steps" in said:
        return _steps(found, said)
    found = [job for job in found if _is_of(job, said)]
    if asked.ids and not found and not _known(api, asked):
        raise Usage("slurm_load_jobs error: Invalid job id specified")
    if "json" in said:
        print(_json(found))
        return 0
    if "array" not in said:
        found = list(fields.shown_together(found))
    found = _sorted(found, said)
    columns, wrong = _columns(said)
    for letter in wrong:
        say(f"squeue: error: Invalid job format specification: {letter}")
    lines = []
    if "noheader" not in said:
        if "long" in said:
            lines.append(time.strftime("%a %b %d %H:%M:%S %Y"))
        lines.append(fields.heading(columns))
    lines += [fields.line(columns, job) for job in found]
    if lines:
        print("\n".join(lines), flush=True)
    return 0


def _is_of(job: Job, said: Mapping[str, str | None]) -> bool:
    """Return True if the job requests one of these licences and is in one of these reservations."""
    licences, reservations = said.get("licenses"), said.get("reservation")
    return (not licences or job.ask.licenses in licences.split(",")) and (
        not reservations or job.ask.reservation in reservations.split(",")
    )


def _steps(found: Sequence[Job], said: Mapping[str, str | None]) -> int:
    """The steps that run, as `squeue --steps` shows them: `12.batch`, `12.0`."""
    wanted = {one for one in (said.get("steps") or "").split(",") if one}
    lines = [] if "noheader" in said else [_STEP.format("STEPID", "NAME", "PARTITION", "USER", "TIME", "NODELIST")]
    for job in found:
        if job.state not in ("RUNNING", "SUSPENDED"):
            continue
        for name in sorted(pages.steps(job), key=lambda name: (name != "batch", name)):
            if wanted and not {job.id, str(job.number), f"{job.id}.{name}", f"{job.number}.{name}"} & wanted:
                continue
            record = job.steps.get(int(name)) if name.isdigit() else None
            since_s = record.start_s if record is not None else job.start_s or time.time()
            where = record.nodes if record is not None else job.nodes[:1]
            shown = record.name if record is not None else name
            lines.append(_STEP.format(
                f"{job.id}.{name}", shown[:8], job.ask.partition[:9], job.ask.user[:8],
                times.elapsed(time.time() - since_s), compress(where, ordered=True),
            ))  # fmt: skip
    if lines:
        print("\n".join(lines), flush=True)
    return 0


_STEP = "{:>15} {:>8} {:>9} {:>8} {:>9} {}"


def _require_known(api: Api, said: Mapping[str, str | None]) -> None:
    """Tell of users that nobody is; refuse unknown nodes and keys of order. Raises Usage."""
    for user in (said.get("user") or "").split(","):
        if user and not user.isdigit() and not is_user(user):
            say(f"squeue: error: Invalid user: {user}\n")
    for key in (said.get("sort") or "").split(","):
        if (letter := key.strip().lstrip("+-")) and letter not in _KEYS:
            raise Usage(f"squeue: error: Invalid sort specification: {said['sort']}")
    if text := said.get("nodelist"):
        from phalanx.slurm.jobs.nodes import nodes

        there = {node.name for node in nodes(api)}
        if missing := [name for name in expand(text) if name not in there]:
            raise Usage(f"squeue: error: Invalid node name {missing[0]}")


def _asked(said: Mapping[str, str | None]) -> Chosen:
    try:
        text = said.get("states")
        states = read_states(text) if text else frozenset(LIVE)
        return chosen(said, states if states is not None else frozenset())
    except NoJob as error:
        raise Usage(f"squeue: error: Invalid job id: {error}") from None
    except KeyError as error:
        raise Usage(
            f"squeue: error: Invalid job state specified: {error.args[0]}\n"
            f"squeue: error: Valid job states include: {','.join(SHORT)}"
        ) from None


def _found(api: Api, said: Mapping[str, str | None], asked: Chosen) -> list[Job]:
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


def _foretell(api: Api, found: Sequence[Job]) -> None:
    """Where a job that needs all nodes of its partition will be is known; of others it is not."""
    from phalanx.slurm.jobs.nodes import nodes

    here, every = site.load(api), [node.name for node in nodes(api)]
    for job in found:
        partition = here.partition(job.ask.partition)
        usable = tuple(name for name in every if partition is None or not partition.nodes or name in partition.nodes)
        if job.expected_s is not None and job.ask.node_count == len(usable):
            job.schednodes = usable


def _known(api: Api, asked: Chosen) -> bool:
    """Return whether there was such a job: then nothing is shown, and nothing is wrong."""
    if jobs(api, asked.numbers, places=False):
        return True
    from phalanx.slurm.jobs.ended import recorded

    since_s = time.time() - site.load(api).keep_s
    return any((asked.ids and job.base in {one.number for one in asked.ids}) or
               job.number in {one.number for one in asked.ids} for job in recorded(since_s))  # fmt: skip


def _columns(said: Mapping[str, str | None]) -> tuple[list[fields.Column], list[str]]:
    if (names := said.get("Format")) is not None:
        return fields.by_names(names)
    default = START if "start" in said else LONG if "long" in said else DEFAULT
    return fields.by_letters(said.get("format") or default)


_KEYS: dict[str, Callable[[Job], Any]] = {
    "a": lambda job: job.ask.account,
    "i": lambda job: (job.base, -1 if job.ask.task is None else job.ask.task),
    "j": lambda job: job.ask.name,
    "M": lambda job: job.elapsed_s,
    "l": lambda job: job.ask.limit_min if job.ask.limit_min is not None else 1 << 40,
    "N": lambda job: job.nodes,
    "P": fields.shown_partition,
    "p": lambda job: job.priority,
    "Q": lambda job: job.priority,
    "q": lambda job: job.ask.qos,
    "S": lambda job: job.start_s or 0.0,
    "t": lambda job: (list(LIVE).index(job.state) if job.live else 9, job.state),
    "T": lambda job: (list(LIVE).index(job.state) if job.live else 9, job.state),
    "u": lambda job: job.ask.user,
    "V": lambda job: job.submit_s,
    "C": lambda job: job.cpus,
    "D": lambda job: job.ask.node_count,
}


def _sorted(found: list[Job], said: Mapping[str, str | None]) -> list[Job]:
    """By --sort; else what waits first, by priority, and then the rest."""
    keys = (said.get("sort") or "P,t,-p").split(",")
    if not said.get("sort"):
        found = sorted(found, key=lambda job: (-job.base, job.ask.task or 0))  # of equals the newer first
    for key in reversed(keys):
        letter = key.strip().lstrip("+-")
        if letter in _KEYS:
            found = sorted(found, key=_KEYS[letter], reverse=key.strip().startswith("-"))
    return found


def _json(found: Sequence[Job]) -> str:
    import msgspec

    rows = [
        {
            "job_id": job.number,
            "array_job_id": job.ask.array or 0,
            "array_task_id": job.ask.task,
            "name": job.ask.name,
            "user_name": job.ask.user,
            "user_id": job.ask.uid,
            "group_name": job.ask.group,
            "account": job.ask.account,
            "partition": job.ask.partition,
            "qos": job.ask.qos,
            "job_state": job.state,
            "state_reason": job.reason,
            "priority": job.priority,
            "cpus": job.cpus,
            "node_count": job.ask.node_count,
            "tasks": job.ask.tasks,
            "nodes": compress(job.nodes, ordered=True),
            "batch_host": job.nodes[0] if job.nodes else "",
            "submit_time": int(job.submit_s),
            "start_time": int(job.start_s or 0),
            "end_time": int(job.end_s or 0),
            "time_limit": job.ask.limit_min,
            "elapsed": times.elapsed(job.elapsed_s),
            "command": job.ask.command,
            "comment": job.ask.comment,
            "current_working_directory": job.ask.workdir,
            "standard_output": job.ask.stdout,
            "standard_error": job.ask.stderr,
            "exit_code": job.exit_code,
            "dependency": job.ask.dependency,
            "nice": job.ask.nice,
        }
        for job in found
    ]
    return msgspec.json.format(msgspec.json.encode({"jobs": rows, "errors": []}), indent=1).decode()
