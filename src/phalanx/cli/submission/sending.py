"""Create objects through the API, after checks for mistakes because of which a job would never start.

An unknown queue is an error. The API accepts it, because the queue may be created later, but in a command it is
probably a typing error. A pod that is too large for all nodes is only a warning, because a larger node may join. A
queue that is not open is a warning too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from phalanx.cli.files.manifest import Document, is_job, refusal
from phalanx.cli.files.rendezvous import has_rendezvous, service_of
from phalanx.cli.terminal.output import amounts_text, note
from phalanx.client.connection import ApiError, ApiRefusal, ApiUnknown, Connection, Object
from phalanx.client.kind import JOBS, NODES, PODS, PRIORITY_CLASSES, SERVICES, Kind
from phalanx.errors import PhalanxError
from phalanx.kube.gang.spec.job_options import dependencies
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import JOB, MIN_AVAILABLE, QUEUE, option, whole_number
from phalanx.kube.read.node import read_node
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.adapter import TRAINING_KINDS
from phalanx.model.node import Node
from phalanx.model.pod import Amounts, format_amount


async def create(connection: Connection, obj: Object, namespace: str) -> Object:
    """Create the object, and return it as the server stores it. Raises ApiRefusal, and PhalanxError if the server does
    not serve the kind."""
    path = await _path(connection, obj, obj["metadata"].get("namespace") or namespace)
    params = {"fieldValidation": "Strict", "fieldManager": "phalanx-cli"}
    answer: Object = await connection.request("POST", path, body=obj, params=params)
    return answer


async def create_document(connection: Connection, document: Document, obj: Object, namespace: str) -> Object:
    """Create an object and, if it is a Job whose pods must find each other, their Service. Return the created object.
    Raises PhalanxError, with file and line, if the server refuses the object or does not answer."""
    try:
        made = await create(connection, obj, namespace)
    except ApiRefusal as error:
        raise refusal(document, error) from error
    except ApiUnknown as error:
        raise PhalanxError(
            f"{document.place()}: {error}. It is unknown whether this object was created; the objects after it were "
            "not created. "
            "`phalanx jobs` lists the jobs. If you submit the same files again, names that exist already are reported."
        ) from error
    if is_job(made) and has_rendezvous(made):
        await create_service(connection, made)
    return made


async def create_service(connection: Connection, job: Object) -> None:
    """Create the Service by which the pods of a created Job find each other. If this fails, print a warning and keep
    the Job."""
    service = service_of(job)
    try:
        await connection.create(SERVICES, service, service["metadata"]["namespace"])
    except ApiError as error:
        if isinstance(error, ApiRefusal) and error.reason == "AlreadyExists":
            return
        note(
            f"phalanx: warning: the service {service['metadata']['name']} was not created ({error}), so the pods of "
            f"job {job['metadata']['name']} cannot find each other by name"
        )


async def require_queues(connection: Connection, named: Iterable[tuple[str, str]]) -> list[str]:
    """Return a warning for each of these queues that starts no new jobs now. `named`: pairs of (queue, the option or
    the line of a file that names it). Raises PhalanxError if a queue does not exist."""
    wanted = list(named)
    if not wanted:
        return []
    try:
        listing = await connection.list(QUEUES)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        raise PhalanxError(
            f"{connection.server} knows no queues, so Phalanx is not installed there, and the job would wait for ever. "
            "Nothing was created. Start it with `phalanx scheduler`."
        ) from error
    known = sorted(queue["metadata"]["name"] for queue in listing["items"])
    for queue, where in wanted:
        if queue not in known:
            near = difflib.get_close_matches(queue, known, 1)
            raise PhalanxError(
                f"{where}: there is no queue {queue!r}; the job would wait for ever, so nothing was created. "
                + (f"Did you mean {near[0]!r}? " if near else "")
                + f"Queues: {', '.join(known) or 'none'}. Create it: "
                f"phalanx queue create {queue}"
            )
    specs = {queue["metadata"]["name"]: queue.get("spec") or {} for queue in listing["items"]}
    return [text for queue in sorted({queue for queue, _ in wanted}) if (text := shut(queue, specs))]


async def require_class(connection: Connection, name: str) -> None:
    """Raise PhalanxError if the PriorityClass does not exist: without it, the job's pods could not be created."""
    try:
        listing = await connection.list(PRIORITY_CLASSES)
    except ApiRefusal:  # the user may not list PriorityClasses; the creation of the pods reports a missing class
        return
    known = {one["metadata"]["name"]: one.get("value", 0) for one in listing["items"]}
    if name not in known:
        there = ", ".join(f"{each} ({value})" for each, value in sorted(known.items(), key=lambda one: one[1]))
        raise PhalanxError(
            f"--priority {name}: there is no such PriorityClass, so the job's pods could not be created. Nothing was "
            f"created. PriorityClasses: {there or 'none'}."
        )


async def not_known(connection: Connection, after: Iterable[str], namespace: str) -> list[str]:
    """Return a warning for each dependency on a job that does not exist. The job may be submitted later, or its name
    may be mistyped."""
    named = {each.job for text in after for each in dependencies(text, namespace)}
    return [
        f"there is no job {job} now: the dependency waits until a job with this name exists, and then for this job"
        for job in sorted(named)
        if not await _exists(connection, *job.split("/", 1))
    ]


async def _exists(connection: Connection, namespace: str, name: str) -> bool:
    """Return True if a Job, pod, training job or gang with this name exists, or if the user may not list them."""
    try:
        for kind in (JOBS, PODS):
            one = {"labelSelector": f"{JOB}={name.removeprefix('pod:')}", "limit": "1"}
            if (await connection.request("GET", kind.path(namespace), params=one))["items"]:
                return True
    except ApiRefusal:
        return True
    return any([await _serves(connection, kind, name, namespace) for kind in (JOBS, PODS, *TRAINING_KINDS)])


async def _serves(connection: Connection, kind: Kind, name: str, namespace: str) -> bool:
    try:
        await connection.get(kind, name.removeprefix("pod:"), namespace)
    except ApiRefusal as error:
        return error.code != 404
    return True


def shut(queue: str, specs: Mapping[str, Object]) -> str:
    """If the queue or a queue above it is not open, return a text that explains why new jobs do not start in it;
    otherwise return "". `specs`: queue -> its spec."""
    above, seen = queue, set[str]()
    while above in specs and above not in seen:
        if (state := specs[above].get("state") or "open") != "open":
            where = f"queue {queue!r}" if above == queue else f"queue {above!r}, above {queue!r},"
            return f"{where} is {state}: jobs that are submitted now wait until it is open"
        seen.add(above)
        above = specs[above].get("parent") or ""
    return ""


async def too_large(connection: Connection, jobs: Iterable[Object]) -> list[str]:
    """Return warnings about Jobs that could not start even if all nodes were empty. Jobs with the same cause share one
    warning."""
    nodes = [read_node(node) for node in (await connection.list(NODES))["items"]]
    warnings: dict[str, list[str]] = {}
    for job in jobs:
        meta, spec = job["metadata"], job["spec"]
        ask = AdmissionDefaults().requirements(meta.get("namespace", ""), spec["template"]["spec"])
        if ask.obstacle is None:
            together = _together(meta, spec)
            text = beyond(ask.shape.requests, nodes) or beyond_all(ask.shape.requests, together, nodes)
            warnings.setdefault(text, []).append(meta["name"])
    warnings.pop("", None)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {text}" for text, names in warnings.items()
    ]


def _together(meta: Object, spec: Object) -> int:
    """Return the number of pods of the Job that must start together."""
    fewest = whole_number(option(meta, MIN_AVAILABLE), 1)
    pods = spec.get("parallelism")
    count = 1 if pods is None else int(pods)
    return count if fewest is None else min(count, fewest)


def beyond_all(asks: Amounts, pods: int, nodes: list[Node]) -> str:
    """If `pods` pods do not fit on the nodes of the cluster at the same time, even if the nodes were empty, return a
    text that explains this; otherwise return ""."""
    fit = sum(
        min((dict(node.allocatable).get(name, 0) // amount for name, amount in asks if amount), default=pods)
        for node in nodes
    )
    if fit >= pods:
        return ""
    return (
        f"its {pods} pods ({amounts_text(asks)} each) start together, but all nodes together have capacity for {fit}, "
        "even if nothing else runs; it waits until nodes join. Request fewer or smaller pods, or delete it."
    )


def beyond(asks: Amounts, nodes: list[Node]) -> str:
    """If no node could hold a pod with these requests, even if the node were empty, return a text that explains this;
    otherwise return ""."""
    holds = [dict(node.allocatable) for node in nodes]
    if any(all(amount <= node.get(name, 0) for name, amount in asks) for node in holds):
        return ""
    if not nodes:
        return "the cluster has no nodes; it waits until a node joins"
    for name, amount in asks:
        most = max(node.get(name, 0) for node in holds)
        if amount > most:
            return (
                f"one of its pods requests {format_amount(name, amount)} {name}, but the largest node has "
                f"{format_amount(name, most)}; it waits until a larger node joins. Request less, or delete it."
            )
    return (
        f"no single node has all that one of its pods requests ({amounts_text(asks)}); it waits until such a node joins"
    )


def queue_of(obj: Object) -> str | None:
    """Return the queue that the object's label names; None without the label."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(QUEUE)


async def _path(connection: Connection, obj: Object, namespace: str) -> str:
    """Look up the object's kind in the server's discovery, as kubectl does, and return the path at which the server
    serves it. Raises PhalanxError if the server does not serve the kind."""
    version, kind = obj["apiVersion"], obj["kind"]
    if (version, kind) == (JOBS.api_version, JOBS.name):  # every server has Jobs
        return JOBS.path(namespace)
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        found = (await connection.request("GET", root))["resources"]
    except ApiRefusal as error:
        if error.code != 404:
            raise
        found = []
    for resource in found:
        if resource["kind"] == kind and "/" not in resource["name"]:
            space = f"/namespaces/{namespace}" if resource["namespaced"] else ""
            return f"{root}{space}/{resource['name']}"
    raise PhalanxError(
        f"the server has no kind {kind} in {version}. Nothing was created. `kubectl api-resources` lists its kinds."
    )
