"""Convert a batch/v1 Job to the scheduler's terms: the number of pods that the Job still needs at once, the shape of
these pods, and whether the Job is suspended.

The size of a Job's gang is the number of pods that the Job controller would run now: min(parallelism, completions -
succeeded - failed indexes). For a Job without completions (a work queue), the size is its parallelism until the first
pod succeeds. After that the size is 0, because no new pods are created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from phalanx.client.connection import Object
from phalanx.dialects.frame.dialect import PodUpdate
from phalanx.kube.read import labels
from phalanx.kube.read.records import PreemptionMark, StartRecord, read_records
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.template.pod_shape import PodRequirements
from phalanx.kube.read.wire import GROUP_FIELDS, epoch_s, with_group
from phalanx.kube.read.workload.adapter import BATCH_JOB, JobAdapter
from phalanx.kube.read.workload.role_types import check_types
from phalanx.model.job import Outcome

_JOB_CONTROLLER = "kubernetes.io/job-controller"
ELSEWHERE = "kueue.x-k8s.io/multikueue"  # spec.managedBy of Jobs that run in other clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A Job, or a role of a framework's job. `parallelism`: the present parallelism. `requested_parallelism`: the
    user's parallelism, which is larger if an elastic Job got fewer pods. `failed`: the number of failed indexes.
    `scheduler`: the scheduler name of its pods. `gates`: the scheduling gates of its pods. `externally_managed`: True
    if another controller manages it. `active_s`: the user's activeDeadlineSeconds. `outcome`: the outcome of an ended
    Job. `ended_s`: the time of the end in the status, in seconds since the epoch; 0 if the status has none.
    `preempted`: how often the Job was preempted. `adapter`: the adapter that presents the object as this Job.
    `grouped`: True if the Job's pods themselves name a group (scheduling.k8s.io). If the Job is not queued, this group
    is the gang. `completions_follow`: True if the completions of the Job must always equal its parallelism, even when
    Phalanx changes the parallelism; while the Job is suspended, both have the user's values. `sent`: True if another
    cluster runs it. `source`: the object from which it was read. `fault`: the error of the object's newest state, if
    that state is invalid; the other fields then show the last valid state.

    The following fields are computed from the Job's other fields. `object_uid`: the uid of the object that contains
    this Job as a role, or of the Job itself. `finished`: True if it has ended. `queued`: True if its labels put it into
    a queue of Phalanx. Phalanx then resumes the Job, and may suspend it again. `ours`: True if Phalanx schedules it,
    because it is queued, or because it runs with Phalanx's scheduler name. `pinned`: True if another scheduler binds
    its pods to the nodes that Phalanx plans (`binding`)."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    suspended: bool
    parallelism: int
    requested_parallelism: int
    completions: int | None
    indexed: bool
    succeeded: int
    failed: int
    outcome: Outcome | None
    externally_managed: bool
    scheduler: str
    bound_by_us: bool
    gates: tuple[str, ...]
    requirements: PodRequirements
    priority: int
    created_s: float
    held: bool
    active_s: int | None
    preempts: bool
    record: StartRecord | None
    mark: PreemptionMark | None
    preempted: int
    options: Mapping[str, str]
    adapter: JobAdapter = BATCH_JOB
    grouped: bool = False
    completions_follow: bool = False
    ended_s: float = 0.0
    sent: bool = False
    source: Object = field(default_factory=dict, compare=False, repr=False)
    fault: str = ""
    object_uid: str = field(init=False)
    key: str = field(init=False)
    finished: bool = field(init=False)
    queued: bool = field(init=False)
    ours: bool = field(init=False)
    pinned: bool = field(init=False)

    def __post_init__(self) -> None:
        free = not self.externally_managed
        queued = free and (labels.QUEUE in self.options or labels.JOB in self.options)
        runs = free and self.scheduler == labels.SCHEDULER_NAME and not self.suspended
        derived = {
            "object_uid": self.uid.partition("/")[0],
            "key": f"{self.namespace}/{self.name}",
            "finished": self.outcome is not None,
            "queued": queued,
            "ours": queued or (runs and not self.grouped and not self.sent),
            "pinned": not self.bound_by_us and not self.sent,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def asked_pods(self) -> int:
        """Return how many pods may run at once according to the user's settings: min(parallelism, completions), as in
        Kubernetes."""
        wished = self.requested_parallelism
        return wished if self.completions is None or self.completions_follow else min(wished, self.completions)

    def object_in(self, objects: Mapping[str, Object]) -> Object | None:
        """Return the object from the cache `objects` of its kind, or the object's last valid state if its newest state
        is invalid; None if the object was deleted."""
        found = objects.get(self.key)
        return self.source if self.fault and found is not None else found

    def size(self, seen_succeeded: int = 0) -> int:
        """Return how many pods the Job could run at once from now on. `seen_succeeded`: the number of succeeded pods in
        the cache, which may be larger than the number in the Job's status."""
        succeeded = max(self.succeeded, seen_succeeded)
        if self.finished:
            return 0
        if self.completions is None:
            return 0 if succeeded else self.requested_parallelism
        return max(0, min(self.requested_parallelism, self.completions - succeeded - self.failed))


def read_job(obj: Object, around: AdmissionDefaults, form: JobAdapter = BATCH_JOB) -> BatchJob:
    """Return the Job, or a role of a framework's job. An invalid object raises an error, which a `Fence` handles."""
    source, obj = obj, form.read(obj)
    if form.role:
        check_types(obj["spec"], source.get("status"))
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    template = original_template(meta, spec["template"])
    pod = template["spec"]
    parallelism = _number(spec.get("parallelism"), 1)
    with_template = {**meta, "template": template.get("metadata")}
    kept = labels.from_autoscalers(own) if (own := template.get("metadata")) else {}
    options = {**around.words(form.kind.name, with_template, ""), **kept, **_said(meta)}
    annotations = meta.get("annotations") or {}
    (record, mark), (priority, preempts) = read_records(annotations), around.priority_and_preemption(pod)
    requested, completions = _wished(meta, parallelism), _completions(spec)
    follow = options.get(labels.COMPLETIONS) == labels.EQUAL_PARALLELISM and completions == parallelism
    return BatchJob(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        resource_version=meta["resourceVersion"],
        suspended=bool(spec.get("suspend")),
        parallelism=parallelism,
        requested_parallelism=requested,
        completions=requested if follow and spec.get("suspend") else completions,
        indexed=spec.get("completionMode") == "Indexed",
        succeeded=int(status.get("succeeded") or 0),
        failed=count_indexes(status.get("failedIndexes") or ""),
        outcome=_outcome(meta, status),
        externally_managed=(spec.get("managedBy") or _JOB_CONTROLLER) not in (_JOB_CONTROLLER, ELSEWHERE),
        scheduler=pod.get("schedulerName") or "default-scheduler",
        bound_by_us=pod.get("schedulerName") in around.answers_to or (bool(form.role) and _is_ours_alone(pod, around)),
        gates=tuple(gate["name"] for gate in pod.get("schedulingGates") or ()),
        requirements=around.requirements(meta["namespace"], pod, _pod_meta(meta, template)),
        priority=priority,
        created_s=epoch_s(meta.get("creationTimestamp")),
        held=labels.held(meta),
        active_s=_active_s(meta, spec.get("activeDeadlineSeconds")),
        preempts=preempts,
        record=record,
        mark=mark,
        preempted=labels.whole_number(annotations[labels.PREEMPTIONS]) or 0 if labels.PREEMPTIONS in annotations else 0,
        options=options,
        adapter=form,
        grouped=_is_grouped(pod, around),
        completions_follow=follow,
        ended_s=_ended_s(status),
        sent=spec.get("managedBy") == ELSEWHERE,
        source=source,
    )


def _completions(spec: Object) -> int | None:
    return _number(spec["completions"], 1) if spec.get("completions") is not None else None


def _is_ours_alone(pod: Object, around: AdmissionDefaults) -> bool:
    return around.sole and (pod.get("schedulerName") or labels.DEFAULT_SCHEDULER) == labels.DEFAULT_SCHEDULER


def _is_grouped(pod: Object, around: AdmissionDefaults) -> bool:
    if GROUP_FIELDS.isdisjoint(pod):
        return False
    named = with_group({}, pod)
    return bool(around.words("Pod", named, pod.get("schedulerName") or labels.DEFAULT_SCHEDULER))


def parallelism_annotation(parallelism: int, requested_parallelism: int) -> str | None:
    """Return the annotation about an elastic Job's size: the number of pods that it may run, and the number that the
    user requested. Return None if both numbers are equal."""
    return f"{parallelism} of {requested_parallelism}" if parallelism != requested_parallelism else None


def time_limit_annotation(active_s: int | None, own: int | None) -> str | None:
    """Return the annotation with two values of activeDeadlineSeconds: Phalanx's and the user's. Return None if both are
    equal."""
    return f"{active_s} of {'none' if own is None else own}" if active_s != own else None


def _active_s(meta: Object, active_s: int | None) -> int | None:
    """Return the user's activeDeadlineSeconds. If the user has changed the field after Phalanx had set it, return the
    new value."""
    now, of, own = (meta.get("annotations") or {}).get(labels.LIMITED, "").partition(" of ")
    if of and now == str(active_s):
        return labels.whole_number(own, 1)
    return active_s


def _wished(meta: Object, parallelism: int) -> int:
    """Return the parallelism that the user requested. If the user changes the parallelism later, return the new
    value."""
    now, of, asked = (meta.get("annotations") or {}).get(labels.PARALLELISM, "").partition(" of ")
    requested = labels.whole_number(asked) if of and now == str(parallelism) else None
    return parallelism if requested is None else requested


class _Written(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The original values of the template fields that a start has changed. `labels`, `annotations`: the original values
    of the changed keys; None for a key that did not exist."""

    node_selector: dict[str, str] | None = None
    tolerations: list[dict[str, Any]] | None = None
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}


def template_annotation(own: Object, update: PodUpdate) -> str:
    """Return an annotation with the original values of the template fields that a start changes. `own`: the original
    template."""
    pod, meta = own.get("spec") or {}, own.get("metadata") or {}
    before = {
        field: {key: (meta.get(field) or {}).get(key) for key in given}
        for field, given in (("labels", update.labels), ("annotations", update.annotations))
    }
    return msgspec.json.encode(_Written(pod.get("nodeSelector"), pod.get("tolerations"), **before)).decode()


def original_template(meta: Object, template: Object) -> Object:
    """Return the template as its user wrote it, without the node selector and tolerations of a flavor, and without the
    labels and annotations that a start has added. `meta`: the metadata of its Job."""
    text = (meta.get("annotations") or {}).get(labels.TEMPLATE)
    if text is None:
        return template
    try:
        said = labels.read_json(text, _Written)
    except ValueError:
        return template
    spec = {**template["spec"], "nodeSelector": said.node_selector, "tolerations": said.tolerations}
    if not said.labels and not said.annotations:
        return {**template, "spec": spec}
    own = dict(template.get("metadata") or {})
    for name, before in (("labels", said.labels), ("annotations", said.annotations)):
        words = {**(own.get(name) or {}), **before}
        own[name] = {key: text for key, text in words.items() if text is not None}
    return {**template, "metadata": own, "spec": spec}


def pod_set_names(jobs: Iterable[BatchJob]) -> dict[str, str]:
    """Return the name of each member's pod set, by the uid of the member. The name is the role. Without a role, the
    name is `main`, or `main-NUMBER` if there are several members."""
    found = sorted(jobs, key=lambda job: (job.created_s, job.name))
    return {
        job.uid: job.adapter.role.lower() or ("main" if len(found) == 1 else f"main-{number}")
        for number, job in enumerate(found)
    }


def _pod_meta(meta: Object, template: Object) -> Object:
    """Return the metadata of the Job's pods; the Job controller adds the Job's name to their labels."""
    said = template.get("metadata") or {}
    own = {labels.JOB_NAME: meta["name"], "job-name": meta["name"]}
    return {**said, "labels": {**(said.get("labels") or {}), **own}}


def _ended_s(status: Object) -> float:
    ends = [c for c in status.get("conditions") or () if c["type"] in {"Complete", "Failed"} and c["status"] == "True"]
    return max((epoch_s(c.get("lastTransitionTime")) for c in ends), default=0.0)


def is_finished(obj: Object) -> bool:
    """Return whether an object, as a Job, has completed, failed, or is being deleted."""
    return _outcome(obj["metadata"], obj.get("status") or {}) is not None


def _outcome(meta: Object, status: Object) -> Outcome | None:
    true = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
    if "Complete" in true:
        return Outcome.SUCCEEDED
    if "Failed" in true:
        return Outcome.FAILED
    return Outcome.DELETED if "deletionTimestamp" in meta else None


def count_indexes(text: str) -> int:
    """Return how many indexes a text such as `1,3-5,7` names (the format of status.completedIndexes and
    failedIndexes)."""
    total = 0
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def _number(value: int | None, default: int) -> int:
    return default if value is None else int(value)


def _said(meta: Object) -> dict[str, str]:
    """Return the `phalanx.dev` options of the Job. Labels take precedence over annotations. The queue is read only from
    a label, and the user only from an annotation."""
    annotations = {key: text for key, text in (meta.get("annotations") or {}).items() if key != labels.QUEUE}
    both = {**annotations, **{key: text for key, text in (meta.get("labels") or {}).items() if key != labels.USER}}
    return {key: str(value) for key, value in both.items() if key.startswith("phalanx.dev/")}
