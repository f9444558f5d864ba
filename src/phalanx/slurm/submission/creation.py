"""Create the objects of a job: the token of its pods, its Secret, and its Job. An array has one Job for each task.

The first part creates the service account whose token the pods have. This token only allows an srun in the job's pods
to connect to these pods and to record its steps. Pods with the image `host` are processes of their user and have the
user's kubeconfig. Pods with other images have no kubeconfig, so they use this service account. Its role names each
object of the job. RBAC cannot restrict a role to the pods of a Job, because their names end with a random suffix. So
the role grants `pods/exec` for all pods, and an admission policy (`cluster.admission`) limits each such account to pods
whose names begin with the name of its job. The account cannot read pods; the pods of a job publish their addresses in
annotations of the Job instead (`jobs.steps.pods.told`).

The submitter of the job grants these rights. The API server refuses privilege escalation, so the rights never exceed
those of the submitter. The account and the role are owned by the job's Secret, and are deleted with it.

The second part creates the Secret and the Jobs. Modules for rare options (reservations, limits of users) are imported
inside the functions that need them, because imports take most of the time of sbatch.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from phalanx.client.moment import write_moment
from phalanx.slurm.accounts.enforced import POLICY, check
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import JOBS, SECRETS, ApiClient, Object, RequestRefused, for_each
from phalanx.slurm.jobs.ask import DEADLINE_SLACK_S, KEY, TOOLS, TOOLS_PATH, Ask
from phalanx.slurm.jobs.names import name_of
from phalanx.slurm.notation.arrays import Array
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import manifest, numbers
from phalanx.slurm.submission.asked.request import Options, SubmissionRequest, partitions, require_room
from phalanx.slurm.submission.asked.size import FAILED, Hardware, fails, require_gres
from phalanx.slurm.submission.environment import variables

if TYPE_CHECKING:
    from phalanx.slurm.jobs.view import JobInfo


_GROUP = "rbac.authorization.k8s.io"
_PLACES = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": f"/apis/{_GROUP}/v1/namespaces/{{namespace}}/roles",
    "RoleBinding": f"/apis/{_GROUP}/v1/namespaces/{{namespace}}/rolebindings",
}


def give(api: ApiClient, jobs: Sequence[str], secrets: Sequence[Object]) -> str:
    """Create the service account of a job. `jobs`: the names of its Jobs, which are the tasks of an array or the
    components of a heterogeneous job. `secrets`: the Secret that the tasks share, or the Secret of each component.
    Return the name of the account. Return "" if the submitter may not grant the rights; then the pods of the job run
    without a token. Raises RequestRefused."""
    named = [one["metadata"]["name"] for one in secrets]
    name = named[0] if len(named) == 1 else f"{named[0]}.{len(named)}"  # `cluster.admission` parses this name
    try:
        for part in objects(name, jobs, named, api.namespace, secrets[0]["metadata"]["uid"]):
            api.create(_PLACES[part["kind"]], part)
    except RequestRefused as error:
        if error.code != 403:
            raise
        return ""
    return str(name)


def objects(name: str, jobs: Sequence[str], secrets: Sequence[str], namespace: str, uid: str) -> tuple[Object, ...]:
    """Return the service account `name`, its role and its role binding. `jobs`, `secrets`: the names of the objects
    that the role allows. `uid`: the uid of the first Secret, which owns the three objects."""
    owner = {"apiVersion": "v1", "kind": "Secret", "name": secrets[0], "uid": uid}
    meta = {"name": name, "ownerReferences": [owner]}
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": list(jobs), "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(secrets), "verbs": ["get"]},
        # A client of pods/exec needs the verb get if it uses WebSocket, and the verb create if it uses SPDY.
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
    ]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{_GROUP}/v1", "kind": "RoleBinding", "metadata": meta, "subjects": [subject],
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        },
    )  # fmt: skip


# --- Secret and Jobs --------------------------------------------------------------------------------------------------

SUBMISSIONS = "/slurm/v1/submissions"


def hardware(api: ApiClient, here: site.Site, said: Options) -> Hardware:
    """Return the hardware of the nodes in the partitions that the options `said` name. Raises Usage."""
    from phalanx.slurm.jobs.nodes import nodes, with_cloud

    require_gres(said)  # as in Slurm, checked before the partition
    named = partitions(said, here)
    names = {node for one in named for node in one.nodes} if all(one.nodes for one in named) else set()
    listed = with_cloud(here, nodes(api))
    every = [msgspec.structs.replace(node, shape=here.sockets.get(node.name, node.shape)) for node in listed]
    found = [node for node in every if not names or node.name in names]
    if not found:
        return Hardware(cpus=1 << 20, memory_mib=1 << 40, gpus=1 << 20, nodes=1)
    return Hardware(
        cpus=max(node.cpus for node in found),
        memory_mib=max(node.memory_mib for node in found),
        gpus=max(node.gpus for node in found),
        nodes=len(found),
        names=frozenset(node.name for node in every),
        features=frozenset(feature for node in every for feature in node.features),
        each=tuple(found),
        every=tuple(every),
        disk_mib=max((here.disks_mib[node.name] for node in found if node.name in here.disks_mib), default=None),
    )


def submit(api: ApiClient, here: site.Site, asked: SubmissionRequest, script: str, args: list[str]) -> list[int]:
    """Create the objects of a job. Return its job number; for an array, return the numbers of all tasks, the number of
    the array first. Raises Usage."""
    require_reservation(api, asked.ask)
    needs = needs_of(api, asked, None)
    count = len(asked.array.tasks) if asked.array is not None else 1
    require_allowed(api, here, asked.ask, count)
    first = numbers.take(api, count, here.first_job)
    # As in Slurm, the last task has the number of the array, and the tasks before it get the following numbers.
    given = [first] if asked.array is None else [*range(first + 1, first + count), first]
    of_each = "aftercorr" in (asked.said.get("dependency") or "")
    asks = [asked.ask if asked.array is None else _task(asked.ask, asked.array, first, at) for at in range(count)]
    names = [name_of(number, ask) for number, ask in zip(given, asks, strict=True)]
    image, shared = asked.ask.image or manifest.default_image(), dict[str, str]()
    parts: list[tuple[int, Ask, dict[str, str], dict[str, str]]] = []
    for number, ask in zip(given, asks, strict=True):
        needs = needs_of(api, asked, ask.task) if of_each else needs
        ask.dependency = needs.shown
        around = {**asked.environment, **variables(number, ask, here, asked.said, script, asked.array)}
        if not shared:
            shared = {**around, **daemon(here, image, os.urandom(32).hex())}
            require_room(shared)
        own = {name: text for name, text in around.items() if shared[name] != text}
        parts.append((number, ask, scheduling_words(ask, needs), own))

    def jobs(account: str) -> list[Object]:
        return [manifest.job(number, ask, here, words, args, image, own, account) for number, ask, words, own in parts]

    secret = manifest.secret(given[0], asks[0], shared)
    with_token = image != manifest.HOST and bool(here.tools)
    if count > 1 or with_token or not _created_together(api, secret, jobs("")[0]):
        _create_one_by_one(api, secret, lambda made: jobs(give(api, names, [made]) if with_token else ""))
    return [first, *(number for number in given if number != first)]


def _created_together(api: ApiClient, secret: Object, job: Object) -> bool:
    """Create the Secret and the Job with one API call that only Phalanx's API server offers. Return False if the server
    does not offer the call, or refuses the objects; nothing was created then. Raises Unreachable."""
    try:
        api.call("POST", SUBMISSIONS, {"secret": secret, "job": job}, namespace=api.namespace)
    except RequestRefused:
        return False
    return True


def _create_one_by_one(api: ApiClient, secret: Object, jobs_of: Callable[[Object], list[Object]]) -> None:
    """Create the Secret and then the Jobs, and set the Jobs as the owners of the Secret. If no Job was created, delete
    the Secret. `jobs_of`: a function that returns the Jobs for the created Secret. Raises Usage, Unreachable."""
    made, owners = api.create(SECRETS, secret), list[Object]()
    try:
        create_all(api, jobs_of(made), owners)
    finally:
        path = f"{SECRETS}/{made['metadata']['name']}"
        if owners:
            api.patch(path, {"metadata": {"ownerReferences": owners}})
        else:
            api.delete(path)


def require_reservation(api: ApiClient, ask: Ask) -> None:
    if not ask.reservation:
        return
    from phalanx.slurm.control.reservations import reservations

    found = next((one for one in reservations(api) if one.name == ask.reservation), None)
    if found is None:
        raise fails("Requested reservation is invalid")
    if not found.allows(ask.user, ask.account):
        raise fails("Access denied to requested reservation")


def require_allowed(api: ApiClient, here: site.Site, ask: Ask, count: int) -> None:
    """Check the limits of the job's QOS, user and account. If a limit is reached, hold the job, or set the maximum
    number of the user's jobs that may run at the same time. Raises Usage if the job is refused."""

    def live() -> list[JobInfo]:
        from phalanx.slurm.jobs.view import jobs

        return jobs(api, places=False)

    found = check(here, ask, count, live)
    if found.refused:
        raise Usage(f"sbatch: error: {found.refused}\n{FAILED}{POLICY}")
    ask.hold = ask.hold or found.hold
    if not ask.throttle and found.cap and not ask.cap:
        ask.cap, ask.cap_group, ask.cap_reason = found.cap, found.group, found.reason


def daemon(here: site.Site, image: str, key: str) -> dict[str, str]:
    """Return the environment variables with which the launcher in a pod starts the step daemon. With the image `host`,
    the daemon is a part of the submitter's Phalanx; with other images it comes from the site's tools. Without such
    tools the pod has no daemon, and the result is empty."""
    started = "-I -m phalanx.slurm.jobs.steps.pods"
    if image == manifest.HOST:
        return {KEY: key, "PHALANX_PYTHON": f"{shlex.quote(sys.executable)} {started}"}
    if not here.tools:
        return {}
    return {KEY: key, "PHALANX_PYTHON": f"{TOOLS}/python {started}", TOOLS_PATH: f"{TOOLS}/bin"}


def _task(ask: Ask, array: Array, first: int, at: int) -> Ask:
    spans = f"{array.tasks[0]}-{array.tasks[-1]}"
    return msgspec.structs.replace(ask, array=first, task=array.tasks[at], throttle=array.throttle, tasks_of=spans)


def needs_of(api: ApiClient, asked: SubmissionRequest, task: int | None) -> numbers.Needs:
    try:
        return numbers.read(api, asked.said.get("dependency") or "", task)
    except numbers.DependencyError as error:
        raise fails(str(error)) from None


def create_all(api: ApiClient, parts: Iterable[Object], owners: list[Object]) -> None:
    """Create the Jobs `parts`, and append an owner reference for each created Job to `owners`, even if a later Job
    fails. Raises Usage, Unreachable."""

    def make(connection: ApiClient, job: Object) -> None:
        try:
            meta = connection.create(JOBS, job)["metadata"]
        except RequestRefused as error:
            raise fails(error.message) from None
        owners.append({"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]})

    for_each(api, parts, make)


def scheduling_words(ask: Ask, needs: numbers.Needs) -> dict[str, str]:
    """Return the annotations of the Job that the scheduler reads."""
    found = {
        "time-limit": f"{ask.limit_min * 60}s" if ask.limit_min is not None else "",
        "hold": ask.hold,
        "begin": _moment(ask.begin_s),
        "deadline": _moment(None if ask.deadline_s is None else ask.deadline_s + DEADLINE_SLACK_S),
        "after": needs.after,
        "after-any": "true" if needs.either else "",
        "singleton": ask.name if needs.singleton else "",
        "array": name_of(ask.array) if ask.array is not None and ask.throttle else ask.cap_group,
        "array-cap": str(ask.throttle or ask.cap or ""),
        "nice": str(ask.nice) if ask.nice else "",
        "qos": ask.qos,
        "reservation": _reservation(ask.reservation),
    }
    return {f"phalanx.dev/{name}": text for name, text in found.items() if text}


def _reservation(name: str) -> str:
    if not name:
        return ""
    from phalanx.slurm.control.reservations import object_name

    return object_name(name)


def _moment(at_s: float | None) -> str:
    return "" if at_s is None else write_moment(at_s)
