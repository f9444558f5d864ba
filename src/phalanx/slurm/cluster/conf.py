"""Translate slurm.conf and gres.conf into a site (`cluster.site`), line by line.

Each line gets a report with the setting of Phalanx that it sets, or with the reason why the line has no effect. The
reports show the administrator of a Slurm site which settings must still be made by hand. This module only reads; it
does not change the cluster.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.site import CloudNode, Partition, Site
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import expand


class LineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report about a line or one word of a line. `file`, `line`, `text`: the file, the line number and the text.
    `taken`: True if the text has an effect. `became`: the setting of Phalanx that the text sets or, if `taken` is
    False, the reason why the text has no effect."""

    file: str
    line: int
    text: str
    became: str
    taken: bool = True


DEFAULT = "DEFAULT"  # the NodeName of a line whose values are defaults for the following lines
Tell = Callable[..., None]
_WEIGHTS = {
    "priorityweightage": "age", "priorityweightassoc": "assoc", "priorityweightfairshare": "fair_share",
    "priorityweightjobsize": "job_size", "priorityweightpartition": "partition", "priorityweightqos": "qos",
}  # fmt: skip
_WHOLE = {"firstjobid": "first_job", "maxarraysize": "max_array", "minjobage": "keep_s", "killwait": "kill_wait_s"}
_MEANS = {
    "first_job": "the first job number", "max_array": "the largest index of an array, plus one",
    "keep_s": "how long squeue shows ended jobs", "kill_wait_s": "the time between SIGTERM and SIGKILL",
}  # fmt: skip
# the beginning of an option's name, in lower case -> why the option has no effect
_NOTHING = (
    ("slurmctld", "there is no slurmctld"), ("slurmd", "there is no slurmd"), ("slurmdbd", "there is no slurmdbd"),
    ("control", "there is no slurmctld"), ("backup", "there is no slurmctld"), ("statesave", "there is no slurmctld"),
    ("auth", "users authenticate with tokens"), ("crypto", "users authenticate with tokens"),
    ("accountingstorageenforce", "associations, limits and QOS are always enforced"),
    ("accountingstorage", "the ledger is a database without a daemon: phalanx scheduler --ledger URL"),
    ("jobcomp", "the ledger has every job"), ("jobacctgather", "step daemons measure the steps"),
    ("select", "jobs always share nodes, as with select/cons_tres: by CPUs, memory and GPUs"),
    ("schedulertype", "backfill is a setting of the policy (docs/guide/time.md)"),
    ("schedulerparameters", "backfill is a setting of the policy (docs/guide/time.md)"),
    ("prioritytype", "the order of jobs is a setting of the policy (docs/guide/fair-share.md)"),
    ("prioritydecay", "the half-life of usage is a setting of the policy (docs/guide/fair-share.md)"),
    ("priority", "the order of jobs is a setting of the policy (docs/guide/fair-share.md)"),
    ("preempt", "preemption is a setting of queues (docs/guide/preemption.md)"),
    ("proctrack", "the kubelet tracks the processes of pods"), ("taskplugin", "the kubelet confines pods"),
    ("mpi", "mpirun starts MPI programs in a job"), ("prologslurmctld", "there is no slurmctld"),
    ("epilogslurmctld", "there is no slurmctld"), ("prologflags", "the prolog runs when the pod starts"),
    ("prologepilog", "the prolog has the time limit of the job"), ("maildomain", "--mail-user needs whole addresses"),
    ("gres", "nodes report their devices"),
    ("launch", "step daemons start the steps"), ("switch", "the cluster configures the network"),
    ("topology", "labels of nodes describe the topology (docs/guide/topology.md)"),
    ("suspend", "node groups switch nodes on and off: phalanx slurm node-groups slurm.conf"),
    ("resume", "node groups switch nodes on and off: phalanx slurm node-groups slurm.conf"),
    ("returntoservice", "a node is usable again as soon as it is Ready"),
)  # fmt: skip


def read_conf(text: str, file: str = "slurm.conf") -> tuple[Site, list[LineReport]]:
    """Return the site that a slurm.conf describes, and a report for each of its lines. Raises PhalanxError."""
    site, told, defaults = Site(partitions=[], counts_gpus=False), list[LineReport](), dict[str, str]()
    for number, line in lines_of(text):

        def tell(text: str, became: str, taken: bool = True, number: int = number) -> None:
            told.append(LineReport(file=file, line=number, text=text, became=became, taken=taken))

        try:
            words = dict(pairs_of(line))
            first = next(iter(words), "")
            match first:
                case "nodename":
                    _node(site, words, tell)
                    defaults |= words if words["nodename"] == DEFAULT else {}
                    _cloud(site, {**defaults, **words}, tell)
                case "partitionname":
                    _partition(site, words, tell)
                case _:
                    for word in shlex.split(line):
                        _setting(site, word, tell)
        except PhalanxError as error:
            raise PhalanxError(f"{file}, line {number}: {error}") from None
    return site, told


def _setting(site: Site, said: str, tell: Tell) -> None:
    name, _, value = said.partition("=")
    name = name.lower()
    match name:
        case "clustername":
            site.cluster = value
            tell(said, "the name of the cluster, in sacct and sreport")
        case "accountingstoragetres":
            site.counts_gpus = "gres/gpu" in value.lower()
            tell(said, "whether nodes and partitions show gres/gpu among their TRES")
        case _ if name in _WHOLE:
            setattr(site, _WHOLE[name], number_of(said, value))
            tell(said, _MEANS[_WHOLE[name]])
        case _ if name in _WEIGHTS:
            setattr(site.weights, _WEIGHTS[name], number_of(said, value))
            tell(said, "a weight in sprio; the scheduler uses the weights in the policy's factors")
        case "priorityweighttres":
            pairs = (part.partition("=") for part in value.split(","))
            site.weights.tres = {one.lower(): float(number_of(said, each)) for one, _, each in pairs}
            tell(said, "weights in sprio; the scheduler uses the weights in the policy's factors")
        case "prioritymaxage":
            site.weights.max_age_s = (_minutes(name, value) or 0) * 60
            tell(said, "the waiting time at which the age factor in sprio is 1")
        case "mailprog":
            site.mail_program = value
            tell(said, "the mail program for --mail-type; it runs in the job's first pod, as the job's user")
        case "prolog" | "epilog":
            setattr(site, name, value)
            tell(said, f"the {name}; it runs in each pod of a job, as the job's user and not as root")
        case "licenses":
            site.licenses = {one: number_of(said, count or "1") for one, count in _licenses(value)}
            tell(said, "licenses: the number of jobs that may use each at the same time")
        case "priorityflags":
            for flag in value.split(","):
                _flag(site, flag, tell)
        case "priorityfavorsmall":
            site.weights.favor_small = value.upper() == "YES"
            tell(said, "whether sprio prefers small jobs")
        case _:
            why = next((why for start, why in _NOTHING if name.startswith(start)), "it has no effect in Phalanx")
            tell(said, why, False)


def _flag(site: Site, flag: str, tell: Tell) -> None:
    said = f"PriorityFlags={flag}"
    match flag.upper():
        case "NO_FAIR_TREE":
            site.classic = True
            tell(said, "the classic formula in sshare and sprio; for the scheduler, set `classic` in the policy")
        case "SMALL_RELATIVE_TO_TIME":
            site.weights.relative_to_time = True
            tell(said, "sizes by time limits in sprio; for the scheduler, set `sizeRelativeToTime` in the policy")
        case "DEPTH_OBLIVIOUS":
            tell(said, "not supported: a real Slurm then favors users far above their share; Fair Tree is used", False)
        case _:
            tell(said, "the order of jobs is a setting of the policy (docs/guide/fair-share.md)", False)


def _licenses(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, _, count = part.partition(":")
        if name:
            yield name, count


def _node(site: Site, words: dict[str, str], tell: Tell) -> None:
    names = expand(words["nodename"])
    if "corespersocket" in words or "sockets" in words:
        shape = ":".join(words.get(word, "1") for word in ("sockets", "corespersocket", "threadspercore"))
        site.sockets |= dict.fromkeys(names, shape)
        site.disks_mib |= dict.fromkeys(names, number_of("TmpDisk", words.get("tmpdisk", "0")))
    if names == ["DEFAULT"]:
        tell("NodeName=DEFAULT", "defaults of nodes have no effect: nodes report their sizes", False)
        return
    features = words.get("feature", words.get("features", ""))
    if features:
        site.features |= {name: features.split(",") for name in names}
        tell(f"NodeName={words['nodename']} Feature={features}", "labels of these nodes, which the option -C selects")
    rest = " ".join(f"{key}={value}" for key, value in words.items() if key not in ("nodename", "feature", "features"))
    tell(f"NodeName={words['nodename']} {rest}".strip(), "nodes report their sizes and addresses", False)


def _cloud(site: Site, words: dict[str, str], tell: Tell) -> None:
    """Add nodes with State=CLOUD to the site. `words`: the words of the line, with the defaults of nodes."""
    if is_cloud(words) and "realmemory" not in words:
        tell(f"NodeName={words['nodename']} State=CLOUD", "without RealMemory, switched-off nodes are not shown", False)
    elif is_cloud(words):
        site.cloud |= dict.fromkeys(expand(words["nodename"]), cloud_node(words))


def is_cloud(words: dict[str, str]) -> bool:
    """Return whether the words of a line describe nodes with State=CLOUD, which programs switch on and off."""
    return words.get("state", "").upper() == "CLOUD" and words["nodename"] != DEFAULT


def cloud_node(words: dict[str, str]) -> CloudNode:
    """Return the CPUs, memory and GPUs of each node that the words of a line describe. Raises PhalanxError."""
    parts = [number_of(key, words.get(key, "1")) for key in ("sockets", "corespersocket", "threadspercore")]
    if "realmemory" not in words:
        raise PhalanxError(f"NodeName={words['nodename']} has no RealMemory: add it, because jobs request memory")
    return CloudNode(
        cpus=number_of("CPUs", words["cpus"]) if "cpus" in words else parts[0] * parts[1] * parts[2],
        memory_mib=number_of("RealMemory", words["realmemory"]),
        gpus=sum(_gpus(words.get("gres", ""))),
    )


def _gpus(gres: str) -> Iterator[int]:
    """Yield the number of GPUs of each GPU entry in a value of Gres, such as 4 for `gpu:a100:4(S:0-1)`."""
    for entry in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *more = entry.split(":")
        if name == "gpu":
            yield int(more[-1]) if more and more[-1].isdecimal() else 1


def _partition(site: Site, words: dict[str, str], tell: Tell) -> None:
    found = Partition(name=words.pop("partitionname"))
    if found.name == "DEFAULT":
        tell("PartitionName=DEFAULT", "defaults of partitions are not supported: add them to each partition", False)
        return
    for key, value in words.items():
        said = f"PartitionName={found.name} {key}={value}"
        match key:
            case "nodes":
                found.nodes = [] if value == "ALL" else expand(value)
            case "default":
                found.default = value.upper() == "YES"
            case "maxtime":
                found.max_min = _minutes(key, value)
            case "defaulttime":
                found.default_min = _minutes(key, value)
            case "maxnodes":
                found.max_nodes = None if value.upper() == "UNLIMITED" else number_of(said, value)
            case "state":
                found.state = value.upper()
            case "allowaccounts":
                found.accounts = [] if value.upper() == "ALL" else value.split(",")
            case "defmempercpu":
                found.mem_per_cpu_mib = number_of(said, value)
            case "priorityjobfactor":
                found.priority = number_of(said, value)
            case _:
                tell(said, "it has no effect in Phalanx", False)
    site.partitions.append(found)
    nodes = f"{len(found.nodes)} nodes" if found.nodes else "all nodes"
    tell(f"PartitionName={found.name}", f"the partition {found.name}, with {nodes}")


def read_gres(text: str, file: str = "gres.conf") -> list[LineReport]:
    """Return a report for each line of a gres.conf. The lines have no effect, because nodes report their devices
    themselves."""
    told = []
    for number, line in lines_of(text):
        words = dict(pairs_of(line))
        name = words.get("name", "")
        why = "the device plugin of a node, or `phalanx up`, reports its GPUs as nvidia.com/gpu"
        if name.lower() != "gpu":
            why = f"sbatch refuses --gres={name or '?'}: Phalanx supports only gpu"
        told.append(LineReport(file=file, line=number, text=line, became=why, taken=False))
    return told


def number_of(said: str, text: str) -> int:
    if not text.isdecimal():
        raise PhalanxError(f"{said}: {text} is not a whole number")
    return int(text)


def _minutes(key: str, value: str) -> int | None:
    try:
        return times.read_limit_min(value)
    except times.TimeError:
        raise PhalanxError(f"{key}={value} is not a time: write for example 1-0 or 10:00") from None


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of each line that is not empty, without comments. Lines that are joined by a backslash
    count as one line, with the number of the first line."""
    first, begun = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = begun + re.sub(r"(^|[^\\])#.*", r"\1", line)
        first = first or number
        if bare.endswith("\\"):
            begun = bare[:-1] + " "
            continue
        if bare.strip():
            yield first, bare.strip()
        first, begun = 0, ""


def pairs_of(line: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(line)
    except ValueError:
        raise PhalanxError(f"{line}: a quote is not closed") from None
    for word in words:
        key, _, value = word.partition("=")
        yield key.lower(), value
