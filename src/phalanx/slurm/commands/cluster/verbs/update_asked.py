"""Run scontrol update for the request of a pending job: its partition, account, size, nodes, features, memory and GPUs.

A pending job is a suspended Job without pods. Kubernetes allows changes of the resources and the node affinity of such
a Job. A job with one node cannot become a job with several nodes, and a job with several nodes cannot become a job with
one node."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import SECRETS, ApiClient, Object, RequestRefused
from phalanx.slurm.commands.cluster.verbs.update_forms import (
    ALWAYS_REFUSED,
    IGNORED,
    OPERATORS,
    RANGE,
    SHOWN,
    read_count,
    read_mail_types,
    read_time_min,
)
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.names import secret_of
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation import amounts
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import creation, manifest
from phalanx.slurm.submission.asked.size import Hardware, choices, partition_limit
from phalanx.slurm.submission.environment import variables


class Refusal(PhalanxError):
    """The error for a change that is refused. Its text is the part of Slurm's message before `for job`."""


DENIED = "Access/permission denied"


class Around(NamedTuple):
    """The data for checking a change. `hardware`: the hardware of the job's partitions. `operator`: True if the caller
    is an operator or an administrator."""

    site: site.Site
    hardware: Hardware
    operator: bool


def around(api: ApiClient, job: JobInfo, said: Mapping[str, str]) -> Around:
    """Return the data for checking the changes `said` of this job."""
    from phalanx.slurm.control import running

    here = site.load(api)
    named = said.get("partition") or ",".join(job.ask.partitions) or job.ask.partition
    known = [one for one in named.split(",") if here.partition(one)]
    hardware = creation.hardware(api, here, {"partition": ",".join(known)} if known else {})
    return Around(here, hardware, os.getuid() == 0 or running.is_operator(here))


def change(job: JobInfo, ask: Ask, name: str, value: str, within: Around) -> None:
    """Make one change in the request `ask`. `name`, `value`: the parameter and its new value. Raises Refusal, Usage."""
    if name in ALWAYS_REFUSED:
        raise Refusal(ALWAYS_REFUSED[name])
    if name in OPERATORS and not within.operator:
        raise Refusal(DENIED)
    match name:
        case "partition":
            _partition(job, ask, value, within)
        case "account":
            _account(ask, value, within.site)
        case "numcpus" | "numnodes" | "numtasks" | "cpuspertask":
            _size(job, ask, name, value, within.hardware)
        case "mincpusnode":
            ask.min_cpus = max(1, read_count(value))
        case "minmemorynode" | "minmemorycpu":
            ask.memory_mib, ask.per_cpu = read_count(value), name == "minmemorycpu"
        case "mintmpdisknode":
            ask.tmp_mib = read_count(value)
        case "features" | "prefer":
            _features(ask, name, value, within.hardware)
        case "nodelist" | "reqnodelist" | "excnodelist":
            _nodes(job, ask, name, value, within.hardware)
        case "gres":
            _gres(ask, value)
        case "reservationname":
            _reservation(ask, value)
        case "timemin":
            _time_min(ask, value)
        case "contiguous":
            ask.contiguous = value.lower() in ("yes", "1")
        case "oversubscribe" | "shared":
            ask.oversubscribe = value.lower() in ("yes", "1")
        case "mailuser":
            ask.mail_user = value or ask.user
        case "mailtype":
            ask.mail = ",".join(read_mail_types(value))
        case "stdout":
            ask.stdout = value
        case "workdir":
            ask.workdir = value or ask.workdir
        case "licenses" if not value:
            ask.licenses = ""
        case "licenses" if value.partition(":")[0] not in within.site.licenses:
            raise Refusal("Invalid license specification")
        case _ if name in SHOWN:
            ask.shown = {**ask.shown, SHOWN[name]: str(read_count(value))}
        case _ if name not in IGNORED:
            raise Usage(f"scontrol: error: Update of {name} is not supported by Phalanx (docs/guide/slurm.md)")


def _partition(job: JobInfo, ask: Ask, value: str, within: Around) -> None:
    found = [within.site.partition(one) for one in value.split(",")]
    named = [one for one in found if one is not None]
    if len(named) < len(found):
        raise Refusal("Invalid partition name specified")
    if job.state != "PENDING":
        if value != ask.partition:
            raise Refusal("Job is no longer pending execution")
        return
    reasons = [partition_limit(ask, one, within.hardware, ask.limit_min) for one in named]
    usable = [one.name for one, reason in zip(named, reasons, strict=True) if not reason]
    ask.partition = (usable or [named[0].name])[0]
    ask.partitions = [one.name for one in named] if len(named) > 1 else []
    ask.usable = usable if len(named) > 1 else []
    if not ask.hold.startswith("JobHeld"):
        ask.hold = "" if usable else reasons[-1]


def _account(ask: Ask, value: str, here: site.Site) -> None:
    theirs = {one.account for one in here.users.get(ask.user, ())}
    if value.lower() not in theirs:
        raise Refusal("Invalid account or account/partition combination specified")
    ask.account = value.lower()


def _size(job: JobInfo, ask: Ask, name: str, value: str, hardware: Hardware) -> None:
    found = RANGE.fullmatch(value)
    least, most = (int(found[1]), int(found[2] or 0)) if found is not None else (read_count(value), 0)
    match name:
        case "numcpus":
            if hardware.each and least > sum(node.cpus for node in hardware.each):
                raise Refusal("Requested partition configuration not available now")
            ask.least_cpus = least
        case "numtasks":
            if not least:
                raise Refusal("Task count specification invalid")
            ask.tasks = max(least, ask.node_count)
        case "cpuspertask":
            ask.cpus_per_task = max(1, least)
        case _:
            _node_count(job, ask, least, most)


def _node_count(job: JobInfo, ask: Ask, least: int, most: int) -> None:
    if job.state != "PENDING":
        if (least, most) != (ask.node_count, 0):
            raise Refusal("Requested operation not supported on this system")
        return
    limit = most or (ask.max_nodes if ask.said_nodes else least)  # a single number sets only the minimum
    if not least or limit < least:
        raise Refusal("Node count specification invalid")
    if ask.least_cpus and ask.least_cpus < least:
        raise Refusal("CPU count specification invalid")
    if (least > 1) != (ask.node_count > 1):
        raise Refusal("one node cannot become several, or several one: submit the job again (docs/guide/slurm.md)")
    ask.nodes, ask.max_nodes, ask.said_nodes = least, limit, bool(most) or ask.said_nodes
    ask.tasks = max(ask.tasks, least)


def _features(ask: Ask, name: str, value: str, hardware: Hardware) -> None:
    unknown = {one for choice in choices(value) for one in choice} - hardware.features
    if hardware.names and unknown:
        raise Refusal(f"Invalid {'' if name == 'features' else 'preferred '}feature specification")
    if name == "features":
        ask.features = value
    else:
        ask.preferred = value


def _nodes(job: JobInfo, ask: Ask, name: str, value: str, hardware: Hardware) -> None:
    names = expand(value)
    if job.state != "PENDING" and not (names and {*names} <= {*job.nodes}):
        raise Refusal("Invalid node name specified")
    if hardware.names and not {*names} <= hardware.names:
        raise Refusal("Invalid node name specified")
    if name == "excnodelist":
        ask.excluded = names
    else:
        ask.wanted = names


def _gres(ask: Ask, value: str) -> None:
    """Set the number of GPUs per node and their type, as `sbatch --gres` does."""
    kind, *rest = value.split(":")
    if value and kind != "gpu":
        raise Refusal("Invalid generic resource (gres) specification")
    ask.gpus_per_node = (amounts.read_count(rest[-1]) if rest and rest[-1].isdecimal() else 1) if value else 0
    ask.gpu_type = rest[0] if rest and not rest[0].isdecimal() else ""
    ask.gpus, ask.tres_per_node = 0, f"gres:{value}"


def _reservation(ask: Ask, value: str) -> None:
    from phalanx.slurm.control.reservations import reservations

    if value and value not in {one.name for one in reservations(ApiClient.open()) if one.allows(ask.user, ask.account)}:
        raise Refusal("Requested reservation is invalid")
    ask.reservation = value


def _time_min(ask: Ask, value: str) -> None:
    least = read_time_min(value)
    if least is None or (ask.limit_min is not None and least > ask.limit_min):
        raise Refusal("Invalid time-min specification (exceeds job's time or other limits)")
    ask.least_min = least


# --- to the objects -------------------------------------------------------------------------------------------------


def patch_of(job: JobInfo, ask: Ask, before: Object, here: site.Site) -> Object:
    """Return a patch of the Job's label and spec for the changed request `ask`; empty if neither changes. The patch
    does not include the annotations. `before`: the Job object."""
    made = manifest.job(job.number, ask, here, {}, [])
    now, then = made["spec"]["template"]["spec"], before["spec"]["template"]["spec"]
    spec: Object = {}
    if made["spec"]["completions"] != before["spec"].get("completions"):
        spec |= {"completions": made["spec"]["completions"], "parallelism": made["spec"]["parallelism"]}
    pod: Object = {}
    resources = now["containers"][0]["resources"]
    if resources != then["containers"][0].get("resources"):
        pod["containers"] = [{**then["containers"][0], "resources": resources}, *then["containers"][1:]]
    own, old = ((one.get("affinity") or {}).get("nodeAffinity") or {} for one in (now, then))
    if own != old:
        pod["affinity"] = {"nodeAffinity": {**dict.fromkeys(old), **own} if own else None}
    if pod:
        spec["template"] = {"spec": pod}
    label = {"phalanx.dev/queue": made["metadata"]["labels"]["phalanx.dev/queue"]}
    same = label.items() <= (before["metadata"].get("labels") or {}).items()
    return ({"spec": spec} if spec else {}) | ({} if same else {"metadata": {"labels": label}})


def refresh_environment(api: ApiClient, job: JobInfo, ask: Ask, here: site.Site) -> None:
    """Write the environment variables of the script whose values change with the request `ask` to the job's Secret."""
    before = variables(job.number, job.ask, here, {}, "", None)
    now = variables(job.number, ask, here, {}, "", None)
    if ask.tasks != job.ask.tasks:
        now |= {"SLURM_NTASKS": str(ask.tasks), "SLURM_NPROCS": str(ask.tasks)}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in now.items() if before.get(name) != text}
    if data:
        api.patch(f"{SECRETS}/{secret_of(job.number, job.ask)}", {"data": data})


def refused(error: RequestRefused) -> Refusal:
    """Return a Refusal with the message of the API server, which has refused a change."""
    return Refusal(error.message)


def with_change(changed: Mapping[str, object], more: Object) -> Object:
    """Return one patch for the Job. `changed`: the annotations. `more`: the patch of the Job's label and spec."""
    metadata = {"annotations": dict(changed), **more.get("metadata", {})}
    return {"metadata": metadata, **({"spec": more["spec"]} if "spec" in more else {})}


def copied(ask: Ask) -> Ask:
    return msgspec.structs.replace(ask, shown=dict(ask.shown))
