"""Run scontrol update of nodes and partitions, reboot, and create, update and delete of reservations. Parse counts and
minutes as scontrol does."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Sequence

from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, Object, RequestRefused
from phalanx.slurm.control import reservations, running
from phalanx.slurm.control.cancelling import cancel_all
from phalanx.slurm.jobs.ask import BATCH, NODE_FAILED
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.nodes import DOWN
from phalanx.slurm.jobs.nodes import PATH as NODES
from phalanx.slurm.jobs.view import jobs
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.options import Usage, say


def create(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for create keyword")
    kind = words[0]
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    entity = entity_of(kind.partition("=")[0])
    if entity not in ("reservationname", "partitionname", "nodename"):
        raise Usage(f"scontrol: error: Invalid creation entity: {kind}")
    api = ApiClient.open()
    here = site.load(api)
    if entity != "reservationname":
        if "=" not in kind and entity == "partitionname":
            raise Usage(f"scontrol: error: Invalid input: {kind}  Request aborted")
        if not is_administrator(here):
            what = "partition" if entity == "partitionname" else "node(s)"
            raise Usage(f"Error creating the {what}: Invalid user id")
        raise Usage(f"scontrol: error: create {kind} is not supported by Phalanx (docs/guide/slurm.md)")
    if "starttime" not in said and "start" not in said:
        raise Usage("scontrol: error: A start time must be given.  No reservation created.")
    if not {"endtime", "end", "duration"} & said.keys():
        raise Usage("scontrol: error: An end time or duration must be given.  No reservation created.")
    if not is_administrator(here):
        raise Usage("Error creating the reservation: Invalid user id")
    print(f"Reservation created: {reservations.create(api, here, said)}")
    return 0


def delete(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for delete keyword")
    text = " ".join(words)
    kind, equals, name = text.replace(" ", "=", 1).partition("=")
    if not equals:
        raise Usage("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
    what = {"partitionname": "partition", "reservationname": "reservation", "nodename": "node"}.get(entity_of(kind))
    if what is None:
        raise Usage(f"Invalid deletion entity: {text}")
    api = ApiClient.open()
    if not is_administrator(site.load(api)):
        raise Usage(f"delete_{what} {words[0]}: Invalid user id")
    if what != "reservation":
        raise Usage(f"scontrol: error: delete {text} is not supported by Phalanx (docs/guide/slurm.md)")
    if not reservations.delete(api, name):
        raise Usage(f"delete_reservation {words[0]}: Requested reservation is invalid")
    return 0


_ENTITIES = ("nodename", "partitionname", "reservationname", "jobid")
_LEAST = 3  # an abbreviated name of an entity must have at least this many letters


def entity_of(typed: str) -> str:
    """Return the entity whose name begins with the typed text; "" if there is none."""
    name = typed.lower()
    return next((one for one in _ENTITIES if len(name) >= _LEAST and one.startswith(name)), "")


def update_reservation(said: dict[str, str]) -> int:
    api = ApiClient.open()
    here = site.load(api)
    if not is_administrator(here):
        raise Usage("Error updating the reservation: Invalid user id\nslurm_update error: Invalid user id")
    reservations.update(api, here, said)
    print("Reservation updated.")
    return 0


def count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Usage(f'Invalid {name} value: "{text}"')
    return int(text)


def minutes(text: str) -> int | None:
    try:
        return times.read_limit_min(text)
    except times.TimeError:
        raise Usage("scontrol: error: Invalid TimeLimit value") from None


_PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


def reboot(words: Sequence[str]) -> int:
    """Drain these nodes. An administrator can reboot them when they have no jobs left. `scontrol update` with
    `state=resume` ends the drain; Phalanx does not detect the reboot, so it does not resume the nodes. `nextstate=` and
    ASAP are accepted without an effect."""
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    names = [word for word in words if "=" not in word and word.upper() != "ASAP"]
    if not names:
        raise Usage("Missing node list. Specify ALL|<NodeList>")
    _require_operator("scontrol: error: RebootProgram isn't defined\nscontrol_reboot_nodes error: Unspecified error")
    return update_node(",".join(names), {"state": "DRAIN", "reason": said.get("reason", "Reboot requested")})


def _require_operator(text: str) -> None:
    if not is_administrator(site.load(ApiClient.open())):
        raise Usage(text)


_NODE_FIELDS = frozenset({
    "activefeatures", "availablefeatures", "comment", "cpubind", "extra", "features", "gres", "nodeaddr",
    "nodehostname", "resumeafter", "weight",
})  # fmt: skip
_PARTITION_FIELDS = frozenset({
    "allocnodes", "allowaccounts", "allowgroups", "allowqos", "alternate", "cpubind", "default", "defmempercpu",
    "defmempernode", "denyaccounts", "denyqos", "disablerootjobs", "exclusiveuser", "gracetime", "hidden",
    "jobdefaults", "lln", "maxcpuspernode", "maxmempercpu", "maxmempernode", "minnodes", "nodes", "overtimelimit",
    "oversubscribe", "preemptmode", "priority", "priorityjobfactor", "prioritytier", "qos", "reqresv", "rootonly",
    "shared", "tres", "tresbillingweights",
})  # fmt: skip
_NODE_STATES = ("DRAIN", "RESUME", "UNDRAIN", "DOWN", "IDLE", "FAIL", "")


def update_node(text: str, said: dict[str, str]) -> int:
    """Change the State and the Reason of nodes. `text`: the list of nodes. The states DRAIN, DOWN and FAIL need a
    Reason; RESUME, UNDRAIN and IDLE end them. Jobs on a node that is set to DOWN are requeued."""
    if not said:
        raise Usage("No changes specified")
    state, reason = said.pop("state", "").upper(), said.pop("reason", "")
    for key, value in said.items():
        if key not in _NODE_FIELDS:
            raise Usage(f"Update of this parameter is not supported: {key}={value}\nRequest aborted")
        raise Usage(f"scontrol: error: {key} is not supported by Phalanx: it changes only State and Reason of nodes")
    if state not in _NODE_STATES:
        raise Usage(
            f"Invalid input: state={state.lower()}\nRequest aborted\n"
            "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN\n"
            "Not all states are valid given a node's prior state"
        )
    if state in ("DRAIN", "DOWN", "FAIL") and not reason:
        raise Usage("You must specify a reason when DOWNING or DRAINING a node. Request denied")
    by = pwd.getpwuid(os.getuid()).pw_name
    drains = state in ("DRAIN", "DOWN", "FAIL")
    annotations: Object = {
        "slurm.phalanx.dev/reason": reason or None,
        "slurm.phalanx.dev/reason-by": by if reason else None,
        "slurm.phalanx.dev/reason-at": times.moment(time.time()) if reason else None,
    }
    if state:
        annotations[DOWN] = "true" if state == "DOWN" else None
    api = ApiClient.open()
    change: Object = {"metadata": {"annotations": annotations}}
    if state:
        change["spec"] = {"unschedulable": drains or None}
    for name in (names := expand(text)):
        try:
            found = api.get(f"{NODES}/{name}")
            away = found["spec"].get("unschedulable") or DOWN in (found["metadata"].get("annotations") or {})
            if not away and state == "RESUME":
                say("slurm_update error: Invalid node state specified")
                return 1
            if away or state:  # only drained nodes and nodes that are down have a reason
                api.patch(f"{NODES}/{name}", change)
        except RequestRefused as error:
            missing = "Invalid node name specified" if is_administrator(site.load(api)) else "Invalid user id"
            whys = {404: missing, 403: "Invalid user id"}
            say(f"slurm_update error: {whys.get(error.code, error.message)}")
            return 1
    if state == "DOWN":
        _requeue_from(api, set(names))
    return 0


def _requeue_from(api: ApiClient, names: set[str]) -> None:
    """Requeue the running jobs on these nodes. Jobs that may not be requeued are cancelled, with the state
    NODE_FAIL."""
    there = [job for job in jobs(api) if job.state in ("RUNNING", "SUSPENDED") and names & set(job.nodes)]
    for job in there:
        if job.ask.kind == BATCH:
            running.send_cause(api, job, signal.SIGQUIT)
        if job.ask.requeue and job.ask.kind == BATCH:
            running.requeue(api, job)
    others = [job for job in there if not job.ask.requeue or job.ask.kind != BATCH]
    cancel_all(api, others, lambda job, error: say(f"slurm_update error: {error}"), now=True, by=NODE_FAILED)


def update_partition(name: str, said: dict[str, str]) -> int:
    if not said:
        raise Usage("scontrol: error: No changes specified")
    for key, value in said.items():
        if key not in ("state", "maxtime", "defaulttime", "maxnodes", *_PARTITION_FIELDS):
            raise Usage(
                f"scontrol: error: Update of this parameter is not supported: {key}={value}\n\n"
                "scontrol: error: Request aborted\nslurm_update error: No error"
            )
    api = ApiClient.open()
    here = site.load(api)
    here.partitions = here.all  # without slurm.conf, the default partition `batch` is stored too
    partition = here.partition(name)
    if said.get("state", "UP").upper() not in _PARTITION_STATES:
        raise Usage(
            f"scontrol: error: Invalid input: state={said['state']}\n"
            "scontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"
            "slurm_update error: No error"
        )
    if not is_administrator(here):
        raise Usage("slurm_update error: Invalid user id")
    if partition is None:
        raise Usage("slurm_update error: Invalid partition name specified")
    for key, value in said.items():
        match key:
            case "state":
                partition.state = value.upper()
            case "maxtime":
                partition.max_min = minutes(value)
            case "defaulttime":
                partition.default_min = minutes(value)
            case "maxnodes":
                partition.max_nodes = None if value.upper() == "UNLIMITED" else count("MaxNodes", value)
            case _:
                raise Usage(f"scontrol: error: Update of {key} is not supported by Phalanx (docs/guide/slurm.md)")
    try:
        site.store(api, here)
    except RequestRefused as error:
        raise Usage("slurm_update error: Invalid user id" if error.code == 403 else str(error)) from None
    _look_again(api, partition)
    return 0


_OF_PARTITION = ("PartitionDown", "PartitionTimeLimit")
# Slurm shows these reasons even if the partition is a second reason why the job cannot start.
_ASIDE = ("BeginTime", "Dependency", "DependencyNeverSatisfied", "JobArrayTaskLimit")


def _look_again(api: ApiClient, partition: site.Partition) -> None:
    """Check the pending jobs of a changed partition again. Hold jobs that the partition does not allow to start any
    longer, and release jobs that were held for such a reason and may start now."""
    for job in jobs(api, places=False):
        if job.state != "PENDING" or job.ask.partition != partition.name or job.held:
            continue
        limit_min, now = job.ask.limit_min, job.reason if job.reason in _OF_PARTITION else ""
        over = partition.max_min is not None and (limit_min is None or limit_min > partition.max_min)
        wanted = "PartitionDown" if partition.state == "DOWN" else "PartitionTimeLimit" if over else ""
        if wanted != now and job.reason not in _ASIDE:
            change = {"metadata": {"annotations": {"phalanx.dev/hold": wanted or None}}}
            api.within(job.namespace).patch(path_of(job.number, job.ask), change)
