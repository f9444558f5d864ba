"""The columns of squeue: the letters of -o and the names of -O (squeue(1)), each with its heading and its value."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from phalanx.slurm.cluster.site import cluster_name
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import SHORT, JobInfo
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.hostlist import compress

Show = Callable[[JobInfo], str]
_Of = TypeVar("_Of")


class Field(msgspec.Struct, Generic[_Of], frozen=True):
    """A field that a column can show. `show`: a function that returns the text for a row. `uncut`: True for lists of
    nodes; Slurm 22.05 does not shorten them in right-aligned columns (measured)."""

    heading: str
    show: Callable[[_Of], str]
    uncut: bool = False


class Column(msgspec.Struct, frozen=True):
    """A column. `field`: the shown field; None if the column consists only of `text`. `width`: the width in characters;
    0 for the width of each value. `right`: True if values are aligned to the right. `text`: the literal text that a
    column without a field prints."""

    field: Field[Any] | None
    width: int = 0
    right: bool = False
    text: str = ""


def memory(job: JobInfo) -> str:
    """Return the requested memory per CPU or node, as text. For a job with --mem-per-gpu, Slurm shows the default
    memory of the partition while the job is pending, and 0 afterwards."""
    if (waiting := job.ask.shown.get("waiting_memory")) is not None:
        return amounts.memory(int(waiting)) if job.state == "PENDING" and waiting != "0" else "0"
    return amounts.memory(job.ask.memory_mib) if job.ask.memory_mib is not None else "0"


def oversubscribes(ask: Ask) -> str:
    return ask.shown.get("OverSubscribe") or ("NO" if ask.exclusive else "YES" if ask.oversubscribe else "OK")


def shown_partition(job: JobInfo) -> str:
    """Return the partition of the job. For a pending job that requested several partitions, return all of them."""
    return ",".join(job.ask.partitions) if job.state == "PENDING" and job.ask.partitions else job.ask.partition


def het_set(ask: Ask) -> str:
    """Return the job numbers of the heterogeneous job's first and last component: `710001-710002`."""
    return "" if ask.het is None else f"{ask.het}-{ask.het + ask.het_size - 1}"


def _het(job: JobInfo, text: str) -> str:
    return "N/A" if job.ask.het is None else text


def nodelist(job: JobInfo) -> str:
    return compress(job.nodes, ordered=True) if job.state != "PENDING" else ""


def where(job: JobInfo) -> str:
    """Return the nodes of a job that has started, or the reason in brackets."""
    if job.state in ("PENDING", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE") and not (
        job.state != "PENDING" and job.reason == "None"
    ):
        return f"({job.reason})"
    return nodelist(job)


def tres(job: JobInfo, *, asked: bool = False) -> str:
    """Return the TRES of the job, such as `cpu=2,mem=2000M,node=1,billing=2`. `asked`: True for the requested amounts,
    False for the amounts that the job holds."""
    ask = job.ask
    of = ask if asked else job
    parts = [f"cpu={of.cpus}"]
    if of.total_mib:
        parts.append(f"mem={amounts.memory(of.total_mib)}")
    parts += [
        f"node={ask.waiting_nodes if job.state == 'PENDING' and ask.waiting_nodes else ask.node_count}",
        f"billing={of.cpus}",
    ]
    if ask.total_gpus:
        parts.append(f"gres/gpu={ask.total_gpus}")
    return ",".join(parts)


def _limit(job: JobInfo) -> str:
    return times.limit(job.ask.limit_min)


def start_s(job: JobInfo) -> float | None:
    """Return the actual or expected start time of the job, in seconds since the epoch; None if unknown."""
    if job.state == "PENDING":
        return job.ask.begin_s if job.reason == "BeginTime" else job.expected_s
    return job.start_s


def end_s(job: JobInfo) -> float | None:
    """Return the end time of the job, or for a running job the time at which its time limit ends it; None if
    unknown."""
    if job.end_s is not None:
        return job.end_s
    begun_s = start_s(job)
    if begun_s is None or job.ask.limit_min is None:
        return None
    return begun_s + job.ask.limit_min * 60


def left_s(job: JobInfo) -> float:
    """Return the remaining time of the job within its time limit, in seconds."""
    return float("inf") if job.ask.limit_min is None else job.ask.limit_min * 60 - job.elapsed_s


def _null(text: str) -> str:
    return text or "(null)"


def _dependency(job: JobInfo) -> str:
    return _null(job.ask.dependency if job.state == "PENDING" else "")


def _left(job: JobInfo) -> str:
    return "UNLIMITED" if job.ask.limit_min is None else times.elapsed(left_s(job))


def _status(job: JobInfo) -> str:
    """Return the exit status in the form of wait(2): the exit code in the second byte, the signal in the first byte."""
    return str(job.signal or job.exit_code << 8)


LETTERS: dict[str, Field[JobInfo]] = {
    "a": Field("ACCOUNT", lambda job: job.ask.account),
    "A": Field("JOBID", lambda job: str(job.own)),
    "b": Field("TRES_PER_NODE", lambda job: job.ask.tres_per_node or "N/A"),
    "B": Field("EXEC_HOST", lambda job: job.nodes[0] if job.nodes else "n/a"),
    "c": Field("MIN_CPUS", lambda job: str(_min_cpus(job))),
    "C": Field("CPUS", lambda job: str(job.cpus)),
    "d": Field("MIN_TMP_DISK", lambda job: amounts.memory(job.ask.tmp_mib) if job.ask.tmp_mib else "0"),
    "D": Field("NODES", lambda job: str(job.node_count)),
    "e": Field("END_TIME", lambda job: times.moment(end_s(job))),
    "E": Field("DEPENDENCY", _dependency),
    "f": Field("FEATURES", lambda job: _null(job.ask.features)),
    "F": Field("ARRAY_JOB_ID", lambda job: str(job.base)),
    "g": Field("GROUP", lambda job: job.ask.group),
    "G": Field("GROUP", lambda job: str(job.ask.gid)),
    "h": Field("OVER_SUBSCRIBE", lambda job: oversubscribes(job.ask)),
    "H": Field("SOCKETS_PER_NODE", lambda job: job.ask.shown.get("sockets", "*")),
    "i": Field("JOBID", lambda job: job.id),
    "I": Field("CORES_PER_SOCKET", lambda job: job.ask.shown.get("cores", "*")),
    "j": Field("NAME", lambda job: job.ask.name),
    "J": Field("THREADS_PER_CORE", lambda job: job.ask.shown.get("threads", "*")),
    "k": Field("COMMENT", lambda job: "(null)" if job.ask.comment is None else job.ask.comment),
    "K": Field("ARRAY_TASK_ID", lambda job: "N/A" if job.ask.task is None else job.id.partition("_")[2].strip("[]")),
    "l": Field("TIME_LIMIT", _limit),
    "L": Field("TIME_LEFT", _left),
    "m": Field("MIN_MEMORY", memory),
    "M": Field("TIME", lambda job: times.elapsed(job.elapsed_s)),
    "n": Field("REQ_NODES", lambda job: compress(job.ask.wanted)),
    "N": Field("NODELIST", nodelist, uncut=True),
    "o": Field("COMMAND", lambda job: _null(job.ask.command)),
    "O": Field("CONTIGUOUS", lambda job: str(int(job.ask.contiguous))),
    "p": Field("PRIORITY", lambda job: f"{job.priority / 4294967295:.14f}"),
    "P": Field("PARTITION", shown_partition),
    "q": Field("QOS", lambda job: job.ask.qos),
    "Q": Field("PRIORITY", lambda job: str(job.priority)),
    "r": Field("REASON", lambda job: job.reason),
    "R": Field("NODELIST(REASON)", where),
    "s": Field("", lambda job: ""),
    "S": Field("START_TIME", lambda job: times.moment(start_s(job))),
    "t": Field("ST", lambda job: SHORT.get(job.state, job.state)),
    "T": Field("STATE", lambda job: job.state),
    "u": Field("USER", lambda job: job.ask.user),
    "U": Field("UID", lambda job: str(job.ask.uid)),
    "v": Field("RESERVATION", lambda job: _null(job.ask.reservation)),
    "V": Field("SUBMIT_TIME", lambda job: times.moment(job.submit_s)),
    "w": Field("WCKEY", lambda job: _null(job.ask.wckey)),
    "W": Field("LICENSES", lambda job: job.ask.licenses or job.ask.shown.get("Licenses", "(null)")),
    "x": Field("EXC_NODES", lambda job: compress(job.ask.excluded)),
    "X": Field("CORE_SPEC", lambda job: "N/A"),
    "y": Field("NICE", lambda job: str(job.ask.nice)),
    "Y": Field("SCHEDNODES", lambda job: _null(compress(job.schednodes, ordered=True)), uncut=True),
    "z": Field("S:C:T", lambda job: ":".join(job.ask.shown.get(one, "*") for one in ("sockets", "cores", "threads"))),
    "Z": Field("WORK_DIR", lambda job: job.ask.workdir),
}


def _min_cpus(job: JobInfo) -> int:
    """Return the smallest number of CPUs that each node must have for the job."""
    ask = job.ask
    return max(1 if ask.exclusive else ask.min_cpus, ask.cpus_per_task * max(1, ask.tasks_per_node))


def pending_time(job: JobInfo) -> str:
    """Return the seconds between the job's submission and its start, as text. For a pending job, return the seconds
    since its submission."""
    until_s = job.start_s if job.start_s is not None and job.state != "PENDING" else time.time()
    return str(int(max(0.0, until_s - job.submit_s)))


def _shown(name: str) -> Show:
    return lambda job: job.ask.shown.get(name) or "N/A"


def _least(job: JobInfo) -> str:
    return times.limit(job.ask.least_min or 0)


def _max_nodes(job: JobInfo) -> str:
    return str(job.ask.max_nodes or job.ask.node_count)


def _or_null(name: str) -> Show:
    return lambda job: _null(job.ask.shown.get(name, ""))


NAMES: dict[str, Field[JobInfo]] = {
    "account": LETTERS["a"], "arrayjobid": LETTERS["F"], "arraytaskid": LETTERS["K"],
    "batchflag": Field("BATCH_FLAG", lambda job: "1"), "batchhost": LETTERS["B"],
    "command": LETTERS["o"], "comment": LETTERS["k"], "contiguous": LETTERS["O"], "cpus-per-task":
    Field("CPUS_PER_TASK", lambda job: str(job.ask.cpus_per_task)),
    "deadline": Field("DEADLINE", lambda job: times.moment(job.ask.deadline_s)),
    "dependency": LETTERS["E"], "eligibletime": Field("ELIGIBLE_TIME", lambda job: times.moment(job.eligible_s)),
    "endtime": LETTERS["e"], "exit_code": Field("EXIT_CODE", _status),
    "hetjobid": Field("HET_JOB_ID", lambda job: _het(job, str(job.ask.het))),
    "hetjoboffset": Field("HET_JOB_OFFSET", lambda job: _het(job, str(job.ask.het_offset))),
    "hetjobidset": Field("HET_JOB_ID_SET", lambda job: _het(job, het_set(job.ask))),
    "feature": LETTERS["f"],
    "licenses": LETTERS["W"], "clusterfeature": Field("CLUSTER_FEATURES", _or_null("ClusterFeatures")),
    "burstbufferstate": Field("BURST_BUFFER_STATE", lambda job: "(null)"),
    "originraw": Field("ORIGIN_RAW", lambda job: "NA"), "sperboard": Field("SOCKETS_PER_BOARD", lambda job: "0"),
    "siblingsactiveraw": Field("ACTIVE_SIBLINGS_RAW", lambda job: "NA"),
    "siblingsviableraw": Field("VIALBLE_SIBLINGS_RAW", lambda job: "NA"),  # as Slurm spells it
    "groupid": LETTERS["G"], "groupname": LETTERS["g"],
    "jobarrayid": LETTERS["i"], "jobid": LETTERS["A"], "maxcpus":
    Field("MAX_CPUS", lambda job: str(job.cpus)), "maxnodes": Field("MAX_NODES", _max_nodes),
    "mincpus": LETTERS["c"], "minmemory": LETTERS["m"], "name": LETTERS["j"], "nice": LETTERS["y"],
    "nodelist": LETTERS["N"], "numcpus": LETTERS["C"], "numnodes": LETTERS["D"],
    "numtasks": Field("TASKS", lambda job: str(job.tasks)), "oversubscribe": LETTERS["h"],
    "partition": LETTERS["P"], "priority": LETTERS["p"], "prioritylong": LETTERS["Q"], "qos": LETTERS["q"],
    "reason": LETTERS["r"], "reasonlist": LETTERS["R"], "reqnodes": LETTERS["n"],
    "requeue": Field("REQUEUE", lambda job: str(int(job.ask.requeue))), "reservation": LETTERS["v"],
    "restartcnt": Field("RESTART_COUNT", lambda job: str(job.restarts)), "schednodes": LETTERS["Y"],
    "starttime": LETTERS["S"], "state": LETTERS["T"], "statecompact": LETTERS["t"],
    "stderr": Field("STDERR", lambda job: job.ask.stderr or job.ask.stdout),
    "stdin": Field("STDIN", lambda job: job.ask.stdin), "stdout": Field("STDOUT", lambda job: job.ask.stdout),
    "submittime": LETTERS["V"], "timeleft": LETTERS["L"], "timelimit": LETTERS["l"], "timeused": LETTERS["M"],
    "tres-alloc": Field("TRES_ALLOC", tres), "tres-per-node": LETTERS["b"], "userid": LETTERS["U"],
    "username": LETTERS["u"], "wckey": LETTERS["w"], "workdir": LETTERS["Z"], "exc_nodes": LETTERS["x"],
    "features": LETTERS["f"], "gres": LETTERS["b"], "sct": LETTERS["z"],
    "boardspernode": Field("BOARDS_PER_NODE", lambda job: "0"), "pendingtime": Field("PENDING_TIME", pending_time),
    "burstbuffer": Field("BURST_BUFFER", lambda job: _null(job.ask.shown.get("BurstBuffer", ""))),
    "cluster": Field("CLUSTER", lambda job: cluster_name(os.environ.get("KUBECONFIG"))),
    "mcslabel": Field("MCSLABEL", lambda job: "(null)"),
    "container": Field("CONTAINER", lambda job: _null(job.ask.shown.get("Container", ""))),
    "cpus-per-tres": Field("CPUS_PER_TRES", _shown("CpusPerTres")),
    "mem-per-tres": Field("MEM_PER_TRES", _shown("MemPerTres")),
    "tres-per-job": Field("TRES_PER_JOB", _shown("TresPerJob")),
    "tres-per-task": Field("TRES_PER_TASK", _shown("TresPerTask")),
    "tres-per-socket": Field("TRES_PER_SOCKET", _shown("TresPerSocket")),
    "tres-bind": Field("TRES_BIND", _shown("TresBind")), "tres-freq": Field("TRES_FREQ", _shown("TresFreq")),
    "prefer": Field("PREFER", lambda job: _null(job.ask.preferred)),
    "delayboot": Field("DELAY_BOOT", lambda job: job.ask.shown.get("DelayBoot", "00:00:00")),
    "network": Field("NETWORK", lambda job: _null(job.ask.shown.get("Network", ""))),
    "ntperboard": Field("NTASKS_PER_BOARD", lambda job: "0"),
    "ntpercore": Field("NTASKS_PER_CORE", _shown("per_core")),
    "ntpernode": Field("NTASKS_PER_NODE", lambda job: str(job.ask.tasks_per_node)),
    "ntpersocket": Field("NTASKS_PER_SOCKET", _shown("per_socket")),
    "origin": Field("ORIGIN", lambda job: "NA"), "preemptime": Field("PREEMPT_TIME", lambda job: "N/A"),
    "preempttime": Field("PREEMPT_TIME", lambda job: "N/A"), "profile": Field("PROFILE", lambda job: "NotSet"),
    "reboot": Field("REBOOT", lambda job: "0"), "resizetime": Field("RESIZE_TIME", lambda job: "N/A"),
    "reqswitch": Field("REQ_SWITCH", lambda job: job.ask.shown.get("Switches", "0").partition("@")[0]),
    "wait4switch": Field("WAIT4SWITCH", lambda job: "00:05:00" if "Switches" in job.ask.shown else "00:00:00"),
    "lastschedeval": Field("LAST_SCHED_EVAL", lambda job: times.moment(job.start_s or job.submit_s)),
    "siblingsactive": Field("ACTIVE_SIBLINGS", lambda job: "NA"), "threads": LETTERS["J"],
    "siblingsviable": Field("VIABLE_SIBLINGS", lambda job: "NA"), "selectjobinfo": Field("", lambda job: ""),
    "systemcomment": Field("", lambda job: ""), "system_comment": Field("SYSTEM_COMMENT", lambda job: ""),
    "admin_comment": Field("ADMIN_COMMENT", lambda job: "(null)"),
    "accruetime": Field("ACCRUE_TIME", lambda job: times.moment(job.eligible_s)),
    "allocnodes": Field("ALLOC_NODES", lambda job: job.ask.host),
    "allocsid": Field("ALLOC_SID", lambda job: str(job.ask.pid)),
    "associd": Field("ASSOC_ID", lambda job: "0"), "cores": LETTERS["I"], "sockets": LETTERS["H"],
    "corespec": LETTERS["X"], "derivedec": Field("DERIVED_EC", lambda job: "0"), "mintime": Field("TIME_MIN", _least),
    "mintmpdisk": LETTERS["d"], "socketspernode": LETTERS["H"],
}  # fmt: skip

_LETTER = re.compile(r"(\.?)(\d*)(.?)(.*)", re.DOTALL)
_NAME = re.compile(r"([A-Za-z0-9_-]+)(?::(\.?)(\d*)(.*))?")


def columns(
    said: Mapping[str, str | None],
    default: str,
    letters: Mapping[str, Field[Any]] = LETTERS,
    names: Mapping[str, Field[Any]] = NAMES,
) -> tuple[list[Column], list[str]]:
    """Return the columns of the format in -O, or else in -o, or else of the format `default`, and the names in it that
    are not fields. `said`: the options. `letters`, `names`: the fields of -o and of -O."""
    if (text := said.get("Format")) is not None:
        return by_names(text, names)
    text = said.get("format")
    return by_letters(default if text is None else text, letters)


def by_letters(text: str, letters: Mapping[str, Field[Any]] = LETTERS) -> tuple[list[Column], list[str]]:
    """Return the columns that the format `text` of -o names, and the letters in it that stand for no field. As in
    Slurm, `%%` and a `%` at the end print nothing."""
    before, _, rest = text.partition("%")
    found = [Column(None, text=before)] if before else []
    wrong: list[str] = []
    for word in filter(None, rest.split("%")):
        match = _LETTER.fullmatch(word)
        assert match is not None  # each part may be empty
        if (field := letters.get(match[3])) is None:
            wrong.append(match[3])
            found.append(Column(None, text=f"%{word}"))
            continue
        found.append(Column(field, read_width(match[2] or "0"), bool(match[1])))
        if match[4]:
            found.append(Column(None, text=match[4]))
    return found, wrong


def by_names(text: str, names: Mapping[str, Field[Any]] = NAMES) -> tuple[list[Column], list[str]]:
    """Return the columns that the list `text` of -O names, and the names in it that are not fields. A column without a
    width has 20 characters. `NAME:|` prints the value without padding, followed by `|`."""
    found: list[Column] = []
    wrong: list[str] = []
    for word in text.split(","):
        match = _NAME.fullmatch(word.strip())
        field = names.get(match[1].lower()) if match is not None else None
        if match is None or field is None:
            wrong.append(word.partition(":")[0])
            continue
        suffix = match[4] or ""
        width = read_width(match[3]) if match[3] else 0 if suffix else 20
        found.append(Column(field, width, bool(match[2])))
        if suffix:
            found.append(Column(None, text=suffix))
    return found, wrong


def heading(columns: list[Column]) -> str:
    return "".join(column.text if column.field is None else _headed(column, column.field) for column in columns)


def _headed(column: Column, field: Field[Any]) -> str:
    if column.right and (field.uncut or field is LETTERS["R"]):
        return field.heading.rjust(column.width)
    return _fit(column, field.heading)


def line(columns: list[Column], row: object) -> str:
    """Return the printed line of `row`, which is a job, or a step if the columns are columns of steps."""
    return "".join(column.text if column.field is None else _fit(column, column.field.show(row)) for column in columns)


def _fit(column: Column, text: str) -> str:
    if not column.width:
        return text
    if text == "(null)" and not column.right and column.width < len(text):
        return " " * column.width  # as printf(3) does, leave out `(null)` if it does not fit into the width
    if column.right and column.field is not None and column.field.uncut:
        return text.rjust(column.width)
    cut = text[: column.width]
    return cut.rjust(column.width) if column.right else cut.ljust(column.width)


def shown_together(jobs: Sequence[JobInfo]) -> list[JobInfo]:
    """Return one job for each line that squeue prints. Tasks of an array that wait for the same reason, or that were
    cancelled together, share the line of the first of these tasks."""
    found: list[JobInfo] = []
    firsts: dict[tuple[object, ...], JobInfo] = {}
    for job in jobs:
        key = (job.base, job.state, job.reason, job.held, int(job.end_s or 0))
        waited = job.state == "PENDING" or (job.state == "CANCELLED" and not job.nodes)
        if waited and job.ask.task is not None:
            if key in firsts:
                firsts[key].others.append(job.ask.task)
                continue
            firsts[key] = job
        found.append(job)
    return found
