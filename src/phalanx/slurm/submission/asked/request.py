"""From sbatch's options to what a job asks: values read, defaults of the site filled in, what cannot be refused.

The messages are Slurm's where it has one: scripts look for them.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import time
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.site import Partition, Site
from phalanx.slurm.jobs.ask import TEXT_MOST, Ask
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.arrays import Array, ArrayError, read_array
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.notation.signals import read_warning
from phalanx.slurm.options import Usage
from phalanx.slurm.submission.asked.optional import FAILED, read_optional

CONFIGURATION = "Requested node configuration is not available"
_ENVIRONMENT_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_VALUE_BYTES = 120_000
_FEATURE_NAME = re.compile(r"[^&|,\[\]()*]+")
_MOST = 1_000_000  # tasks, or cpus of one

Options = Mapping[str, str | None]


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The largest node of the partition, and how many there are: CPUs, MiB, GPUs. `names` and `features`: of all
    nodes; none: they are not known."""

    names: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    cpus: int = 1
    memory_mib: int = 1
    gpus: int = 0
    nodes: int = 1


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`array` None: one job. `environment`: of the script, without what each job adds."""

    ask: Ask
    array: Array | None
    said: Options
    environment: Mapping[str, str] = {}


def fails(text: str) -> Usage:
    return Usage(FAILED + text)


def request(said: Options, site: Site, hardware: Hardware, script: str | None, args: list[str], line: str) -> Request:
    """Raises Usage."""
    partition = _partition(said, site)
    now_s = time.time()
    who = _who(said)
    ask = Ask(
        name=said.get("job-name")
        or ("wrap" if script is None and "wrap" in said else os.path.basename(script or "sbatch")),
        user=who.pw_name,
        uid=who.pw_uid,
        gid=who.pw_gid,
        group=_group(who.pw_gid),
        account=_account(said, site, who.pw_name),
        partition=partition.name,
        submit_s=now_s,
        comment=(said.get("comment") or "")[:TEXT_MOST],
        reservation=said.get("reservation") or "",
        command=" ".join([script, *args])[:TEXT_MOST] if script is not None else "",
        workdir=os.path.join(os.getcwd(), said.get("chdir") or "").rstrip("/") or "/",
        line=line[:TEXT_MOST],
        host=socket.gethostname(),
        pid=os.getppid(),
        features=said.get("constraint") or "",
        wanted=expand(said.get("nodelist") or ""),
        excluded=expand(said.get("exclude") or ""),
        exclusive="exclusive" in said,
        requeue="no-requeue" not in said,
        nice=_nice(said),
        hold="JobHeldUser" if "hold" in said else "",
        begin_s=_moment(said, "begin", now_s),
        deadline_s=_moment(said, "deadline", now_s),
    )
    ask.warning, ask.wckey = _warning(said), said.get("wckey") or ""
    if ask.wckey and site.wckeys and ask.wckey not in site.wckeys.get(ask.user, ()):
        raise fails("Invalid wckey specification")
    ask.qos = _qos(said, site, ask)
    _size(ask, said, partition, hardware)
    read_optional(ask, said, site, hardware.memory_mib)
    ask.limit_min = _limit(said, partition)
    _check(ask, partition, hardware, now_s, site.all)
    array = None
    if spec := said.get("array"):
        try:
            array = read_array(spec, site.max_array)
        except ArrayError:
            raise fails("Invalid job array specification") from None
    _files(ask, said, array is not None)
    return Request(ask=ask, array=array, said=said, environment=exported(said.get("export"), os.environ))


# --- who and where --------------------------------------------------------------------------------------------------


def _who(said: Options) -> pwd.struct_passwd:
    """Root may submit as another user."""
    text = said.get("uid")
    if text is None:
        return pwd.getpwuid(os.getuid())
    if os.getuid() != 0:
        raise Usage("sbatch: error: --uid only permitted by root user", 255)
    try:
        return pwd.getpwuid(int(text)) if text.isdigit() else pwd.getpwnam(text)
    except KeyError:
        raise Usage(f'sbatch: error: --uid="{text}" invalid', 255) from None


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _partition(said: Options, site: Site) -> Partition:
    names = (said.get("partition") or "").split(",")
    for name in names[1:]:
        if site.partition(name) is None:
            raise Usage(f"sbatch: error: invalid partition specified: {name}\n{FAILED}Invalid partition name specified")
    if len(names) > 1:  # the first of them that takes jobs
        names = [name for name in names if getattr(site.partition(name), "state", "") == "UP"] or names
    if not names[0]:
        if site.default is None:
            raise fails("No partition specified or system default partition")
        return site.default
    found = site.partition(names[0])
    if found is None:
        raise Usage(f"sbatch: error: invalid partition specified: {names[0]}\n{FAILED}Invalid partition name specified")
    return found


def _account(said: Options, site: Site, user: str) -> str:
    account = (said.get("account") or "").lower()
    if not site.users:
        return account or "default"
    theirs = [one.account for one in site.users.get(user, ())]
    if not theirs or (account and account not in theirs):
        raise fails("Invalid account or account/partition combination specified")
    return account or theirs[0]


def _qos(said: Options, site: Site, ask: Ask) -> str:
    theirs = next((one for one in site.users.get(ask.user, ()) if one.account == ask.account), None)
    if said.get("qos") == "":
        raise fails("Invalid qos specification")
    wanted = said.get("qos") or (theirs.default_qos if theirs is not None else "") or "normal"
    if theirs is not None and theirs.qos and wanted not in theirs.qos:
        raise fails("Invalid qos specification")
    return wanted


# --- how much -------------------------------------------------------------------------------------------------------


def _number(said: Options, name: str, default: int, least: int = 1) -> int:
    text = said.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= _MOST:
        raise Usage(f'sbatch: error: Invalid numeric value "{text}" for --{name}.')
    return number


def _size(ask: Ask, said: Options, partition: Partition, hardware: Hardware) -> None:
    ask.cpus_per_task, ask.node_cpus = _number(said, "cpus-per-task", 1), min(hardware.cpus, 1 << 16)
    ask.tasks_per_node = _number(said, "ntasks-per-node", 0)
    ask.min_cpus = _number(said, "mincpus", 1)
    if text := said.get("nodes"):
        try:
            ask.nodes, ask.max_nodes = amounts.read_range(text)
        except amounts.AmountError:
            raise _wrong_nodes(text) from None
        ask.said_nodes = True
    elif len(ask.wanted) > 1:
        ask.nodes = len(ask.wanted)
    ask.tasks = _number(said, "ntasks", ask.nodes * max(1, ask.tasks_per_node))
    if not ask.said_nodes and len(ask.wanted) <= 1:
        ask.nodes = max(1, -(-ask.cpus // hardware.cpus))
        if ask.tasks_per_node:
            ask.nodes = max(ask.nodes, -(-ask.tasks // ask.tasks_per_node))
    elif ask.tasks < ask.nodes and ask.said_nodes:
        ask.nodes = ask.tasks
    _memory(ask, said, partition, hardware)
    _gpus(ask, said)


def _wrong_nodes(text: str) -> Usage:
    """Return what Slurm says of a number of nodes that cannot be."""
    least, dash, most = text.partition("-")
    if text == "0":
        return fails("Node count specification invalid")
    if dash and least.isdigit() and most.isdigit() and int(least) > int(most):
        return Usage(f"sbatch: error: Maximum node count {most} is less than minimum node count {least}", 255)
    return Usage(f'sbatch: error: "{text}" is not a valid node count', 255)


def _memory(ask: Ask, said: Options, partition: Partition, hardware: Hardware) -> None:
    name = next((name for name in ("mem", "mem-per-cpu") if said.get(name)), None)
    if name is None:
        ask.memory_mib, ask.per_cpu = partition.mem_per_cpu_mib, partition.mem_per_cpu_mib is not None
        return
    try:
        ask.memory_mib = amounts.read_mib(said[name] or "")
    except amounts.AmountError:
        raise Usage(f"sbatch: error: Invalid --{name} specification", 255) from None
    ask.per_cpu = name == "mem-per-cpu"
    if name == "mem" and ask.memory_mib == 0:
        ask.memory_mib = hardware.memory_mib


def _gpus(ask: Ask, said: Options) -> None:
    try:
        if text := said.get("gres"):
            ask.gpus_per_node = sum(amounts.read_gpus(part) for part in text.split(","))
            ask.tres_per_node = ",".join(f"gres:{part}" for part in text.split(",")) if ask.gpus_per_node else ""
        if text := said.get("gpus-per-node"):
            ask.gpus_per_node = amounts.read_gpus(text)
            ask.tres_per_node = f"gres:gpu:{ask.gpus_per_node}"
        if text := said.get("gpus"):
            ask.gpus_per_node = -(-amounts.read_gpus(text) // ask.node_count)
        if text := said.get("gpus-per-task"):
            ask.gpus_per_node = amounts.read_gpus(text) * -(-ask.tasks // ask.node_count)
    except amounts.AmountError:
        raise Usage("sbatch: error: Invalid generic resource (gres) specification") from None


def _limit(said: Options, partition: Partition) -> int | None:
    text = said.get("time")
    if text is None:
        return partition.default_min if partition.default_min is not None else partition.max_min
    try:
        found = times.read_limit_min(text)
    except times.TimeError:
        raise Usage("sbatch: error: Invalid --time specification", 255) from None
    return partition.max_min if found == 0 else found


def _warning(said: Options) -> str:
    """`10 90 batch`: the signal, how many seconds before the time limit, and to whom."""
    text = said.get("signal")
    if text is None:
        return ""
    found = read_warning(text)
    if found is None:
        raise Usage("sbatch: error: Invalid --signal specification", 255)
    return f"{found[0]} {found[1]} {'batch' if found[2] else 'steps'}"


def _nice(said: Options) -> int:
    if "nice" not in said:
        return 0
    text = said["nice"]
    try:
        nice = 100 if text is None else int(text)
    except ValueError:
        raise Usage(f"sbatch: error: Invalid --nice value, {text}", 255) from None
    if nice < 0 and os.getuid() != 0:
        raise fails("Invalid --nice value")
    return nice


def _moment(said: Options, name: str, now_s: float) -> float | None:
    text = said.get(name)
    if text is None:
        return None
    try:
        return times.read_moment(text, now_s)
    except times.TimeError:
        read = len("now+") if text.lower().startswith(("now+", "now-")) else 0  # so far Slurm understood it
        raise Usage(
            f"Invalid time specification (pos={read}): {text}\nsbatch: error: Invalid --{name} specification", 255
        ) from None


def _check(
    ask: Ask, partition: Partition, hardware: Hardware, now_s: float, site_partitions: Sequence[Partition]
) -> None:
    """Refuse a job that can never run; one that only the partition's limits keep waits, with the reason, as in
    Slurm."""
    if ask.deadline_s is not None and ask.deadline_s <= now_s:
        raise fails("Requested time limit is invalid (missing or exceeds some limit)")
    if ask.begin_s is not None and ask.begin_s <= now_s:
        ask.begin_s = None
    if partition.accounts and ask.account not in partition.accounts:
        raise fails("Invalid account or account/partition combination specified")
    if partition.state in ("INACTIVE", "DRAIN"):
        raise fails("Required partition not available (inactive or drain)")
    if partition.nodes and set(ask.wanted) - set(partition.nodes):
        known = {node for one in site_partitions for node in one.nodes}
        raise fails(CONFIGURATION if set(ask.wanted) <= known else "Invalid node name specified")
    if hardware.names and set(ask.excluded) - hardware.names:
        raise fails("Invalid node name specified")
    if hardware.names and set(_FEATURE_NAME.findall(ask.features)) - hardware.features:
        raise fails("Invalid feature specification")
    if ask.least_min is not None and ask.limit_min is not None and ask.least_min > ask.limit_min:
        raise fails("Invalid time-min specification (exceeds job's time or other limits)")
    cpus = max(ask.cpus_of_nodes)
    per_node = (ask.memory_mib or 0) * (cpus if ask.per_cpu else 1)
    if cpus > hardware.cpus:
        what = "CPU count per node can not be satisfied"
        raise Usage(f"sbatch: error: {what}\n{FAILED}{CONFIGURATION}")
    if per_node > hardware.memory_mib:
        raise Usage(f"sbatch: error: Memory specification can not be satisfied\n{FAILED}{CONFIGURATION}")
    if ask.gpus_per_node > hardware.gpus and not ask.hold:
        raise fails(CONFIGURATION)
    if ask.exclusive:
        ask.min_cpus = hardware.cpus
    if not ask.hold:
        ask.hold = _partition_limit(ask, partition, hardware)


def _partition_limit(ask: Ask, partition: Partition, hardware: Hardware) -> str:
    if partition.state == "DOWN":
        return "PartitionDown"
    if ask.nodes > (partition.max_nodes or hardware.nodes) or ask.nodes > hardware.nodes:
        return "PartitionNodeLimit"
    if partition.max_min is not None and (ask.limit_min is None or ask.limit_min > partition.max_min):
        return "PartitionTimeLimit"
    return ""


# --- files and environment ------------------------------------------------------------------------------------------


def _files(ask: Ask, said: Options, array: bool) -> None:
    ask.stdout = said.get("output") or ("slurm-%A_%a.out" if array else "slurm-%j.out")
    ask.stderr = said.get("error") or ""
    ask.stdin = said.get("input") or "/dev/null"
    if said.get("open-mode") not in (None, "append", "truncate", "a", "t"):
        raise Usage("sbatch: error: Invalid --open-mode specification", 255)


def exported(said: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of the caller's environment the job sees: --export=ALL, NONE, or names and NAME=VALUE."""
    words = (said or "ALL").split(",")
    found: dict[str, str] = {}
    if "ALL" in words:
        found = {name: text for name, text in environment.items() if not name.startswith("SLURM_")}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word not in ("ALL", "NONE", "NIL") and word in environment:
            found[word] = environment[word]
    if "ALL" not in words:
        found.setdefault("PATH", environment.get("PATH", "/usr/local/bin:/usr/bin:/bin"))
        found["PHALANX_NO_HOME"] = "1"
    return {
        name: text
        for name, text in found.items()
        if _ENVIRONMENT_NAME.fullmatch(name) and len(os.fsencode(text)) < _VALUE_BYTES
    }


def require_room(environment: Mapping[str, str]) -> None:
    """Raises PhalanxError where it is more than a Secret holds."""
    size = sum(len(name) + len(os.fsencode(text)) for name, text in environment.items())
    if size > 900_000:
        raise PhalanxError(
            f"the environment and the script have {size} bytes, and a job may carry 900000: --export less"
        )
