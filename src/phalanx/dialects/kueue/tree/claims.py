"""Compute the settings (`Claim`) of a gang that names a LocalQueue, from Kueue's definitions and from the gang's
Workload.

A LocalQueue does not become a queue of the tree. It only names the ClusterQueue of its jobs, and its stop policy may
stop these jobs. This module also applies Kueue's other rules about one ClusterQueue and one job: the namespaces from
which the ClusterQueue accepts jobs, the treatment of resources without a quota, and the AdmissionChecks that apply.

A *prebuilt* Workload is created before its job, and the job names it with `kueue.x-k8s.io/prebuilt-workload-name`.

The job waits until a Workload of that name exists and has no other owner. Then the job becomes the Workload's owner,
and the Workload's priority and maximum execution time apply to the job. If the Workload and the job describe different
pods, the Workload is finished as OutOfSync, and the job does not start. Deleting the Workload stops its job. Container
fields that the Workload leaves out are not compared, because the server adds defaults to a Job but not to a Workload.


Sources: pkg/controller/jobframework/{reconciler,utils}.go, pkg/util/equality/podset.go of v0.19.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Charging, Claim, PodSet, PodUpdate, Said
from phalanx.dialects.frame.selectors import selects
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.gangs import MAX_EXECUTION
from phalanx.dialects.kueue.provisioning.requests import READY
from phalanx.dialects.kueue.tree import checks
from phalanx.dialects.kueue.tree.definitions import ClusterQueue, KueueDefinitions, LocalQueue
from phalanx.dialects.kueue.tree.workload import WorkloadPodSet, WorkloadStatus, WorkloadView
from phalanx.model.pod import PODS
from phalanx.model.reason import Reason, ReasonCode

OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"
_ALIKE = ("initContainers", "containers")
_AMOUNTS = frozenset({"requests", "limits"})


def obstacle(name: str, uid: str, workload: WorkloadView | None) -> Reason | None:
    """Return why a job cannot start with its prebuilt Workload; None if the job is the owner of the Workload. `uid`:
    the job's uid."""
    if workload is None:
        return _reason(f"it waits for the prebuilt Workload {name}, which does not exist")
    if not is_owned(workload, uid):
        if is_of_another(workload, (uid,)):
            return _reason(f"the prebuilt Workload {name} belongs to another job")
        return _reason(f"it waits until it has become the owner of the prebuilt Workload {name}")
    done = _finished(workload)
    return _reason(f"the prebuilt Workload {name} is finished: {done}") if done else None


def _reason(text: str) -> Reason:
    return Reason(code=ReasonCode.HELD, text=text, numbers={"by": "prebuilt"})


def _finished(workload: WorkloadView) -> str:
    """Return the reason of the condition Finished; empty if the Workload is not finished."""
    listed = (workload.get("status") or {}).get("conditions") or ()
    found = (str(one.get("reason")) for one in listed if one.get("type") == "Finished" and one.get("status") == "True")
    return next(found, "")


def is_owned(workload: WorkloadView, uid: str) -> bool:
    """Return whether the object with this uid owns the Workload."""
    return any(one.get("uid") == uid for one in workload["metadata"].get("ownerReferences") or ())


def is_of_another(workload: WorkloadView, uids: Iterable[str]) -> bool:
    """Return whether the Workload has a controller whose uid is not among these uids."""
    owners = workload["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("uid", "") not in uids for one in owners)


def is_in_sync(workload: WorkloadView, pod_sets: Sequence[PodSet], options: Mapping[str, str]) -> bool:
    """Return whether a Workload has the same pods and the same maximum execution time as its job."""
    spec = workload.get("spec") or {}
    limit = spec.get("maximumExecutionTimeSeconds")
    sets = spec.get("podSets") or ()
    return (
        (str(limit) if limit is not None else "") == str(options.get(MAX_EXECUTION, ""))
        and len(sets) == len(pod_sets)
        and all(_is_alike(one, own) for one, own in zip(sets, pod_sets, strict=True))
    )


def _is_alike(said: WorkloadPodSet, own: PodSet) -> bool:
    fewer = own.minimum if own.minimum < own.count else None
    if int(said.get("count", 1)) != own.count or said.get("minCount") != fewer:
        return False
    old_spec, new_spec = (said.get("template") or {}).get("spec") or {}, own.template.get("spec") or {}
    return all(_says(old_spec.get(key) or [], new_spec.get(key) or []) for key in _ALIKE)


def _says(said: object, own: object, *, amount: bool = False) -> bool:
    """Return whether `own` (a value of the job) has all fields of `said` (the value in the Workload) with equal values.
    Lists must have the same length. `amount`: True if the values are quantities, so that different spellings of the
    same amount are equal."""
    if isinstance(said, Mapping) and isinstance(own, Mapping):
        return all(key in own and _says(each, own[key], amount=amount or key in _AMOUNTS) for key, each in said.items())
    if isinstance(said, list) and isinstance(own, list):
        return len(said) == len(own) and all(_says(*pair, amount=amount) for pair in zip(said, own, strict=True))
    if amount:
        try:
            return bool(parse(said) == parse(own))
        except QuantityError:
            return False
    return bool(said == own)


def claim(defined: KueueDefinitions, said: Said, workload: WorkloadView | None = None) -> Claim | None:
    """Return the settings of a gang that names a LocalQueue; None if the gang names no LocalQueue."""
    key = kinds.local_queue_of(said.queue)
    if not key:
        return None
    if not defined.manages(said.namespace):
        return Claim(queue="", silent=True)  # the gang is treated like one without a LocalQueue
    priority = defined.priorities.get(said.options.get(kinds.PRIORITY_LABEL, kinds.DEFAULT_CLASS))
    local = defined.local_queues.get(key)
    if local is None:
        asked = key.partition("/")[2]
        text = f"LocalQueue {asked} of namespace {said.namespace} does not exist"
        if not asked:
            text = f"it names no LocalQueue, and Kueue's Configuration manages such jobs: set {kinds.QUEUE_LABEL}"
        return Claim(queue=said.queue, priority=priority, blocked=Reason(code=ReasonCode.QUEUE_UNKNOWN, text=text))
    queue, found = kinds.tree_queue(local.cluster_queue), defined.cluster_queues.get(local.cluster_queue)
    why, gate, updates = _held(workload or {}), None, dict[str, PodUpdate]()
    about = None
    if unknown := missing_class(defined, said.options, workload):
        text = f"WorkloadPriorityClass {unknown} does not exist: create it, or correct {kinds.PRIORITY_LABEL}"
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.INVALID, text=text))
    if kinds.PRIORITY_LABEL in said.options and priority is None:  # its WorkloadPriorityClass was deleted
        priority = _own_priority(workload)
    if name := said.options.get(gangs.PREBUILT):
        about = kinds.WORKLOADS, f"{said.namespace}/{name}"
        why = obstacle(name, said.owner.uid if said.owner else "", workload) or why
        priority = _own_priority(workload) if priority is None else priority
    if why is None and found is not None and found.checks:
        status = (workload or {}).get("status") or {}
        others = found.checks.keys() - defined.multi.keys()
        gate = checks.gate(partial(_asked, defined, found), status) if others else None
        why = checks.turned_down(status)
        gate = gate or _nomination(defined, found, status)
        if gate is None and why is None and workload is not None:
            updates, why = _updates(defined, workload)
    own_claim = Claim(
        note=_note(defined, workload or {}),
        queue=queue,
        priority=priority,
        about=about,
        evicted_as=gangs.EVICTED_AS,
        clusters=_nominated(defined, found, workload or {}),
        charging=_charging(defined, found),
        account=key if defined.usage_of(local.cluster_queue) is not None else "",
    )
    if why is not None:
        return replace(own_claim, blocked=why, drained=True)
    blocked, drained = _obstacle(defined, local, said), _drains(defined, local)
    return replace(own_claim, blocked=blocked, drained=drained, gate=gate, updates=updates)


def _asked(defined: KueueDefinitions, found: ClusterQueue, flavors: frozenset[str]) -> list[str]:
    """Return the checks for which a job with these flavors waits. Checks that send the job to another cluster are left
    out, because the job is sent only when it starts."""
    return [name for name in found.checks_on(flavors) if name not in defined.multi]


def _clusters(defined: KueueDefinitions, found: ClusterQueue | None) -> tuple[str, ...] | None:
    """Return the clusters to which a ClusterQueue sends its jobs; None if its jobs run in this cluster."""
    sending = [defined.multi[name] for name in found.checks if name in defined.multi] if found is not None else []
    return sending[0] if sending else None


def _nominated(defined: KueueDefinitions, found: ClusterQueue | None, workload: WorkloadView) -> tuple[str, ...] | None:
    """Return the clusters that may get the job: the clusters of its ClusterQueue. If an external dispatcher has
    nominated some of them, return only these."""
    clusters = _clusters(defined, found)
    nominated = (workload.get("status") or {}).get("nominatedClusterNames") or ()
    if clusters is None or not defined.configuration.multi.dispatcher or not nominated:
        return clusters
    return tuple(name for name in clusters if name in nominated)


def _nomination(defined: KueueDefinitions, found: ClusterQueue, status: WorkloadStatus) -> Reason | None:
    """Return why a job with reserved quota is not sent to another cluster yet. The reason is that an external
    dispatcher has nominated no cluster for the job."""
    name = defined.configuration.multi.dispatcher
    if (
        not name
        or _clusters(defined, found) is None
        or status.get("nominatedClusterNames")
        or status.get("clusterName")
    ):
        return None
    text = (
        f"it waits for the dispatcher {name}, which nominates clusters in status.nominatedClusterNames of its Workload"
    )
    return Reason(code=ReasonCode.HELD, text=text)


def _note(defined: KueueDefinitions, workload: WorkloadView) -> tuple[str, bool]:
    """Return the messages of those AdmissionChecks of the gang that create ProvisioningRequests, and whether all these
    checks are Ready."""
    known = checks.states(workload.get("status") or {})
    provisioning = [one for name, one in known.items() if name in defined.provisioning]
    text = "; ".join(str(one["message"]) for one in provisioning if one.get("message"))
    return text, bool(provisioning) and all(one.get("state") == READY for one in provisioning)


def _charging(defined: KueueDefinitions, found: ClusterQueue | None) -> Charging | None:
    settings = defined.configuration
    return None if found is None or settings.counts_all else partial(settings.counted, declared=found.resources)


def missing_class(defined: KueueDefinitions, options: Mapping[str, str], workload: WorkloadView | None) -> str:
    """Return the name of the WorkloadPriorityClass that a job names if this class does not exist. Return an empty text
    if the class exists, or if the job already has a Workload of this class. As in Kueue, the job gets no Workload until
    the class exists."""
    name = options.get(kinds.PRIORITY_LABEL, "")
    of_workload = ((workload or {}).get("spec") or {}).get("priorityClassRef") or {}
    known = name in defined.priorities or of_workload.get("name") == name or gangs.PREBUILT in options
    return "" if known else name


def _own_priority(workload: WorkloadView | None) -> int | None:
    """Return the priority in a Workload's spec; None if the spec has no priority."""
    said = ((workload or {}).get("spec") or {}).get("priority")
    return said if isinstance(said, int) else None


def _held(workload: WorkloadView) -> Reason | None:
    """Return the reason why the state of the gang's Workload forbids the gang to start; None if it may start."""
    if (workload.get("spec") or {}).get("active") is False:
        return Reason(code=ReasonCode.HELD, text="The workload is deactivated", numbers={"by": "deactivated"})
    return checks.failed_to_start(workload.get("status") or {})


def _updates(defined: KueueDefinitions, workload: WorkloadView) -> tuple[dict[str, PodUpdate], Reason | None]:
    """Return the changes that the checks require in the gang's pods, and the reason if these changes conflict. If the
    gang is admitted, a conflict yields no reason."""
    own = {kinds.tree_flavor(name) for name in checks.flavors_of(workload.get("status") or {})}
    labels = {key: text for flavor in defined.flavors if flavor.name in own for key, text in flavor.labels}
    try:
        return checks.updates(workload, labels), None
    except checks.UpdateConflict as error:
        return {}, None if checks.admitted(workload.get("status") or {}) else checks.cannot_start(str(error))


def _drains(defined: KueueDefinitions, local: LocalQueue) -> bool:
    """Return whether the running jobs of the LocalQueue must be stopped."""
    found = defined.cluster_queues.get(local.cluster_queue)
    policies = (local.stop_policy, found.node.spec.get("stopPolicy") if found is not None else None)
    return "HoldAndDrain" in policies


def _obstacle(defined: KueueDefinitions, local: LocalQueue, said: Said) -> Reason | None:
    if gates := [name.strip() for name in said.options.get(gangs.GATED, "").split(",") if name.strip()]:
        text = (
            f"Admission is gated by: {', '.join(gates)}; the program that added a name to {gangs.GATED} must remove it"
        )
        return Reason(code=ReasonCode.HELD, text=text, numbers={"by": "gated"})
    if local.stop_policy != "None":
        text = f"LocalQueue {local.name} is stopped"
        return Reason(code=ReasonCode.QUEUE_HELD, text=text, numbers={"by": "local-queue"})
    found = defined.cluster_queues.get(local.cluster_queue)
    if found is None:
        text = f"ClusterQueue {local.cluster_queue} of LocalQueue {local.name} does not exist"
        return Reason(code=ReasonCode.QUEUE_UNKNOWN, text=text)
    if not found.active:
        return Reason(code=ReasonCode.QUEUE_HELD, text=f"ClusterQueue {local.cluster_queue}: {found.message}")
    if not selects(found.node.spec.get("namespaceSelector"), defined.namespaces.get(said.namespace, {})):
        text = f"namespace {said.namespace} does not match the namespaceSelector of ClusterQueue {local.cluster_queue}"
        return Reason(code=ReasonCode.INVALID, text=text)
    each_pod = (defined.configuration.counted(each, found.resources) for each in said.requests)
    counted = {resource for counts in each_pod for resource, _ in counts}
    if uncovered := sorted(counted - found.resources - {PODS}):
        text = f"ClusterQueue {local.cluster_queue} has no quota for {', '.join(uncovered)}"
        return Reason(code=ReasonCode.NO_NODE_MATCHES, text=text)
    return None
