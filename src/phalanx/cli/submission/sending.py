"""Sending objects to the API, after a look at what would let them wait for ever.

An unknown queue is refused here: the API takes it (a queue may be made later), but who types a command has mistyped it.
A pod that no node could ever hold is a warning: such a node may join. So is a queue that is not open.
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
    """Return the object as the server has it. Raises ApiRefusal, and PhalanxError if no such kind is served."""
    path = await _path(connection, obj, obj["metadata"].get("namespace") or namespace)
    params = {"fieldValidation": "Strict", "fieldManager": "phalanx-cli"}
    answer: Object = await connection.request("POST", path, body=obj, params=params)
    return answer


async def create_document(connection: Connection, document: Document, obj: Object, namespace: str) -> Object:
    """Create an object, and the service through which the pods of a Job find each other. A refusal names file and line,
    and so does an answer that did not come."""
    try:
        made = await create(connection, obj, namespace)
    except ApiRefusal as error:
        raise refusal(document, error) from error
    except ApiUnknown as error:
        raise PhalanxError(
            f"{document.place()}: {error}. Whether this one was created is not known, and nothing was from here on. "
            "`phalanx jobs` shows what is there; to submit the same again says which names are taken."
        ) from error
    if is_job(made) and has_rendezvous(made):
        await create_service(connection, made)
    return made


async def create_service(connection: Connection, job: Object) -> None:
    """Create the service by which the pods of a created Job find each other. If that fails, the Job stays, with a
    warning."""
    service = service_of(job)
    try:
        await connection.create(SERVICES, service, service["metadata"]["namespace"])
    except ApiError as error:
        if isinstance(error, ApiRefusal) and error.reason == "AlreadyExists":
            return
        note(
            f"phalanx: warning: the service {service['metadata']['name']} was not created ({error}), so the pods of "
            f"job {job['metadata']['name']} do not find each other by name"
        )


async def require_queues(connection: Connection, named: Iterable[tuple[str, str]]) -> list[str]:
    """Return a warning for each queue that starts no new jobs now. `named`: (queue, the document or option that names
    it). Raises PhalanxError if a queue does not exist."""
    wanted = list(named)
    if not wanted:
        return []
    try:
        listing = await connection.list(QUEUES)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        raise PhalanxError(
            f"{connection.server} knows no queues, so no Phalanx schedules there and the job would wait for ever. "
            "Nothing was created. Start it with `phalanx scheduler`."
        ) from error
    known = sorted(queue["metadata"]["name"] for queue in listing["items"])
    for queue, where in wanted:
        if queue not in known:
            near = difflib.get_close_matches(queue, known, 1)
            raise PhalanxError(
                f"{where}: there is no queue {queue!r}; the job would wait for ever, so nothing was created. "
                + (f"Did you mean {near[0]!r}? " if near else "")
                + f"Queues: {', '.join(known) or 'none'}. Make one: "
                f"phalanx queue create {queue}"
            )
    specs = {queue["metadata"]["name"]: queue.get("spec") or {} for queue in listing["items"]}
    return [text for queue in sorted({queue for queue, _ in wanted}) if (text := shut(queue, specs))]


async def require_class(connection: Connection, name: str) -> None:
    """Raise PhalanxError if the PriorityClass does not exist: the job's pods could not be created."""
    try:
        listing = await connection.list(PRIORITY_CLASSES)
    except ApiRefusal:  # the user may not list PriorityClasses: pod creation reports a missing class
        return
    known = {one["metadata"]["name"]: one.get("value", 0) for one in listing["items"]}
    if name not in known:
        there = ", ".join(f"{each} ({value})" for each, value in sorted(known.items(), key=lambda one: one[1]))
        raise PhalanxError(
            f"--priority {name}: there is no such PriorityClass, and the job's pods could not be created. Nothing was "
            f"created. Those there are: {there or 'none'}."
        )


async def not_known(connection: Connection, after: Iterable[str], namespace: str) -> list[str]:
    """Return a warning for each dependency on a job that does not exist. The job may be submitted later, or its name
    may be mistyped."""
    named = {each.job for text in after for each in dependencies(text, namespace)}
    return [
        f"there is no job {job} now: what waits for it waits until there is one, and then for that"
        for job in sorted(named)
        if not await _exists(connection, *job.split("/", 1))
    ]


async def _exists(connection: Connection, namespace: str, name: str) -> bool:
    """Return True if a Job, pod, training job or gang of that name exists, or if the user may not list them."""
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
    """Return the reason for which a job that is submitted now does not start in the queue, because it or a queue above
    it is not open; "" if all are open."""
    above, seen = queue, set[str]()
    while above in specs and above not in seen:
        if (state := specs[above].get("state") or "open") != "open":
            where = f"queue {queue!r}" if above == queue else f"queue {above!r}, above {queue!r},"
            return f"{where} is {state}: what is submitted now waits until it is open"
        seen.add(above)
        above = specs[above].get("parent") or ""
    return ""


async def too_large(connection: Connection, jobs: Iterable[Object]) -> list[str]:
    """Return a warning for each Job that could not start if all nodes were empty; one for all with the same cause."""
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
    """Return how many pods of the Job start together."""
    fewest = whole_number(option(meta, MIN_AVAILABLE), 1)
    pods = spec.get("parallelism")
    count = 1 if pods is None else int(pods)
    return count if fewest is None else min(count, fewest)


def beyond_all(asks: Amounts, pods: int, nodes: list[Node]) -> str:
    """Return why the empty nodes of the whole cluster could not hold `pods` pods at the same time; "" if they could."""
    fit = sum(
        min((dict(node.allocatable).get(name, 0) // amount for name, amount in asks if amount), default=pods)
        for node in nodes
    )
    if fit >= pods:
        return ""
    return (
        f"its {pods} pods ({amounts_text(asks)} each) start together, and all nodes together have room for {fit}, "
        "even if nothing else ran; it waits until nodes join. Ask fewer or smaller pods, or delete it."
    )


def beyond(asks: Amounts, nodes: list[Node]) -> str:
    """Return why no node could ever hold a pod with these requests; "" if one could."""
    holds = [dict(node.allocatable) for node in nodes]
    if any(all(amount <= node.get(name, 0) for name, amount in asks) for node in holds):
        return ""
    if not nodes:
        return "there are no nodes; it waits until one joins"
    for name, amount in asks:
        most = max(node.get(name, 0) for node in holds)
        if amount > most:
            return (
                f"one of its pods asks {format_amount(name, amount)} {name}, but the largest node has "
                f"{format_amount(name, most)}; it waits until a larger node joins. Ask less, or delete it."
            )
    return f"no single node has all that one of its pods asks ({amounts_text(asks)}); it waits until such a node joins"


def queue_of(obj: Object) -> str | None:
    """Return the queue that an object names."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels.get(QUEUE)


async def _path(connection: Connection, obj: Object, namespace: str) -> str:
    """Return the path at which the server serves the object's kind, from its discovery, as kubectl does."""
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
        f"the server has no kind {kind} in {version}. Nothing was created. `kubectl api-resources` lists those it has."
    )
