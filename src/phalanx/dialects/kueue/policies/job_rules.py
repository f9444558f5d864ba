"""Define admission policies that change and check Jobs and pods as Kueue's webhooks do. Jobs and pods that name a
LocalQueue are suspended or gated until Phalanx starts them, and their labels are checked.


Sources: pkg/controller/jobs/{job,pod}/*_webhook.go of v0.19.2.

The first functions build an admission policy of the API server, whose rules are CEL expressions, and the policy's
binding.

Source: KEP-3488, KEP-3962.

Further policies record the creator of a job that names a LocalQueue. Phalanx needs the creator for the limits and
shares of users and for the ledger (the database of all jobs that ran).

The record of the creator is called a *signature*. Phalanx's own policy (`kube/install/admission_policy`) signs jobs
that have Phalanx's labels, and forbids changes of a signature. So the policy in this module signs a job only once: when
the job is created with the queue label, or when it gets this label later."""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import JOBS, Kind
from phalanx.client.policies import Made, changing, refusing, rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.supported import FRAMEWORKS, SIGNED_BY_THEIR_DIALECT
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.kinds import QUEUE_LABEL

LABELS: Final = "object.metadata.labels"
QUEUED: Final = f'has({LABELS}) && "{kinds.QUEUE_LABEL}" in {LABELS} && !("phalanx.dev/queue" in {LABELS})'
_OLD = "oldObject.metadata.labels"
QUEUED_BEFORE: Final = (
    f'({QUEUED}) || (request.operation == "UPDATE" && has({_OLD}) && "{kinds.QUEUE_LABEL}" in {_OLD} && '
    f'!("phalanx.dev/queue" in {_OLD}))'
)
NOT_OWNED: Final = (
    "!has(object.metadata.ownerReferences) || "
    "!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
ALIVE: Final = {"alive": "!has(object.metadata.deletionTimestamp)"}


def _constraints(rules: list[Object], conditions: dict[str, str]) -> Object:
    """Return the match constraints of a policy. If a condition requires a queue name, a label selector excludes objects
    without a queue name, because the API server evaluates a selector faster than a CEL expression."""
    selector = [{"key": kinds.QUEUE_LABEL, "operator": "Exists"}] if "queued" in conditions else []
    return {"resourceRules": rules, **({"objectSelector": {"matchExpressions": selector}} if selector else {})}


def mutating(
    name: str, rules: list[Object], conditions: dict[str, str], change: str, *, patch: bool = False
) -> list[Made]:
    """Return a policy that changes matching objects. `patch`: True if `change` is a JSON patch; False if it is an apply
    configuration."""
    full, matching = f"{name}.kueue.phalanx.dev", _constraints(rules, conditions)
    return changing(full, rules, conditions, change, patch=patch, matchConstraints=matching)


def validating(name: str, rules: list[Object], conditions: dict[str, str], checks: dict[str, str]) -> list[Made]:
    """Return a policy that refuses matching objects. `checks`: for each error message, the CEL expression that must be
    true."""
    full, matching = f"{name}.kueue.phalanx.dev", _constraints(rules, conditions)
    return refusing(full, rules, conditions, checks, matchConstraints=matching)


SCHEDULER = "object.spec.template.spec.schedulerName"
# True for a job that is sent to another cluster, which then chooses the scheduler of the job's pods.
_SENT = 'has(object.spec.managedBy) && object.spec.managedBy == "kueue.x-k8s.io/multikueue"'
_SUSPEND = (
    "Object{spec: Object.spec{suspend: true, template: Object.spec.template{spec: Object.spec.template.spec{"
    f'schedulerName: !has({SCHEDULER}) || {SCHEDULER} == "default-scheduler" ? '
    f'(({_SENT}) ? "default-scheduler" : "phalanx") : {SCHEDULER}'
    "}}}}"
)
UNQUEUED: Final = {
    "names-no-queue": f'!has({LABELS}) || !({LABELS}.exists(k, k == "{kinds.QUEUE_LABEL}" || '
    'k in ["phalanx.dev/queue", "phalanx.dev/job"]))',
    "own": NOT_OWNED,
    "of-users": 'object.metadata.namespace != "kube-system" && object.metadata.namespace != "kueue-system"',
}
_UNQUEUED = {
    **UNQUEUED,
    "of-the-job-controller": "!has(object.spec.managedBy) || object.spec.managedBy in "
    '["kubernetes.io/job-controller", "kueue.x-k8s.io/multikueue"]',
}
_DEFAULT = _SUSPEND.replace(
    "Object{spec:", f'Object{{metadata: Object.metadata{{labels: {{"{kinds.QUEUE_LABEL}": "default"}}}}, spec:', 1
)
_POD_SCHEDULER = (
    "Object{spec: Object.spec{schedulerName: !has(object.spec.schedulerName) || object.spec.schedulerName == "
    '"default-scheduler" ? "phalanx" : object.spec.schedulerName}}'
)


def in_default_queue(found: list[tuple[Kind, Object]]) -> list[tuple[Kind, Object]]:
    """Return a policy for namespaces with a LocalQueue `default`, and its binding. The API server evaluates the policy
    for every job. So a failed evaluation is ignored, because it would otherwise block all jobs."""
    (kind, policy), (bound, binding) = found
    local = {"apiVersion": kinds.LOCAL_QUEUES.api_version, "kind": kinds.LOCAL_QUEUES.name}
    policy["spec"] |= {"failurePolicy": "Ignore", "paramKind": local}
    binding["spec"]["paramRef"] = {"name": "default", "parameterNotFoundAction": "Allow"}
    return [(kind, policy), (bound, binding)]


_FILE = 'params.data["controller_manager_config.yaml"]'
IS_MANAGED: Final = {
    "is-managed": (
        'has(params.data) && "controller_manager_config.yaml" in params.data && '
        f'{_FILE}.matches("(?m)^manageJobsWithoutQueueName: *true *$")'
    ),
}
_MANAGED = {
    **_UNQUEUED,
    "of-the-default-scheduler": f'!has({SCHEDULER}) || {SCHEDULER} == "default-scheduler"',
    **IS_MANAGED,
}


_MANAGED_PODS = {
    "own": NOT_OWNED,  # this condition comes first because most pods have an owner
    **UNQUEUED,
    "of-the-default-scheduler": '!has(object.spec.schedulerName) || object.spec.schedulerName == "default-scheduler"',
    **IS_MANAGED,
    "with-pods": f'{_FILE}.matches("(?m)^ *- *[\\x22\\x27]?pod[\\x22\\x27]? *$")',
}


def if_managed(found: list[tuple[Kind, Object]]) -> list[tuple[Kind, Object]]:
    """Return a policy whose parameter is Kueue's Configuration, and its binding. The API server evaluates the policy
    for every job. So a failed evaluation is ignored, because it would otherwise block all jobs."""
    (kind, policy), (bound, binding) = found
    policy["spec"] |= {"failurePolicy": "Ignore", "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    binding["spec"]["paramRef"] = {
        "name": "kueue-manager-config",
        "namespace": "kueue-system",
        "parameterNotFoundAction": "Allow",
    }
    return [(kind, policy), (bound, binding)]


_JOBS = [rule("batch", "jobs", "CREATE")]
_MARKED = _SUSPEND.replace(
    "Object{spec:", f'Object{{metadata: Object.metadata{{annotations: {{"{gangs.UNQUEUED}": "true"}}}}, spec:', 1
)


_MARKED_POD = (
    f'Object{{metadata: Object.metadata{{annotations: {{"{gangs.UNQUEUED}": "true"}}}}, '
    'spec: Object.spec{schedulerName: "phalanx"}}'
)
_NOTES, _OLD_LABELS = "object.metadata.annotations", "oldObject.metadata.labels"
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def _label(key: str, of: str = LABELS) -> str:
    return f'{of}["{kinds.PREFIX}{key}"]'


def _has(key: str, of: str = LABELS) -> str:
    return f'has({of}) && "{kinds.PREFIX}{key}" in {of}'


def _same(key: str) -> str:
    """Return a CEL expression that is true if the old and the new object have the same value of a label, or if both
    lack the label."""
    before, after = f"({_has(key, _OLD_LABELS)})", f"({_has(key)})"
    return f"{before} == {after} && (!{after} || {_label(key)} == {_label(key, _OLD_LABELS)})"


_LIMIT_CHECK = {
    "kueue.x-k8s.io/max-exec-time-seconds must be a whole number above 0": (
        f'!({_has("max-exec-time-seconds")}) || {_label("max-exec-time-seconds")}.matches("^[1-9][0-9]{{0,8}}$")'
    )
}


def label_checks(suspend: tuple[str, ...], name: str) -> dict[str, str]:
    """Return the checks of a job's labels: for each error message, the CEL expression that must be true. `suspend`: the
    path of the job's suspend field. `name`: the job's kind, for messages."""
    names = ("oldObject", "spec", *suspend)
    paths = [".".join(names[: end + 1]) for end in range(1, len(names))]
    field, present = paths[-1], " && ".join(f"has({path})" for path in paths)
    waits = f'request.operation != "UPDATE" || ({present} && {field})'
    return {
        "the label kueue.x-k8s.io/queue-name is not the name of a LocalQueue": (
            f'!({_has("queue-name")}) || {_label("queue-name")}.matches("{_NAME}")'
        ),
        **_LIMIT_CHECK,
        f"kueue.x-k8s.io/queue-name cannot change while the {name} is not suspended": (
            f"{waits} || ({_same('queue-name')})"
        ),
        f"kueue.x-k8s.io/priority-class cannot be added or removed while the {name} is not suspended": (
            f"{waits} || ({_has('priority-class', _OLD_LABELS)}) == ({_has('priority-class')})"
        ),
        f"kueue.x-k8s.io/max-exec-time-seconds cannot change while the {name} is not suspended": (
            f"{waits} || ({_same('max-exec-time-seconds')})"
        ),
        f"kueue.x-k8s.io/prebuilt-workload-name cannot change while the {name} is not suspended": (
            f"{waits} || ({_same('prebuilt-workload-name')})"
        ),
        "the label kueue.x-k8s.io/prebuilt-workload-name is not the name of a Workload": (
            f'!({_has("prebuilt-workload-name")}) || {_label("prebuilt-workload-name")}.matches("{_NAME}")'
        ),
    }


_OLD_NOTES = "oldObject.metadata.annotations"
_GATES = f'{_label("admission-gated-by", _NOTES)}.split(",")'
_OLD_GATES = f'{_label("admission-gated-by", _OLD_NOTES)}.split(",")'
_JOB_CHECKS = {
    **label_checks(("suspend",), "Job"),
    "names can only be removed from kueue.x-k8s.io/admission-gated-by": (
        f'request.operation != "UPDATE" || !({_has("admission-gated-by", _NOTES)}) || '
        f"(({_has('admission-gated-by', _OLD_NOTES)}) && {_GATES}.all(gate, gate in {_OLD_GATES}))"
    ),
    "kueue.x-k8s.io/job-min-parallelism must be a whole number above 0 and below parallelism": (
        f"!({_has('job-min-parallelism', _NOTES)}) || "
        f'({_label("job-min-parallelism", _NOTES)}.matches("^[1-9][0-9]{{0,8}}$") && '
        f'(request.operation == "UPDATE" || '
        f"int({_label('job-min-parallelism', _NOTES)}) < (has(object.spec.parallelism) ? object.spec.parallelism : 1)))"
    ),
    "kueue.x-k8s.io/job-completions-equal-parallelism requires an Indexed Job with equal numbers": (
        f"!({_has('job-completions-equal-parallelism', _NOTES)}) || "
        f'{_label("job-completions-equal-parallelism", _NOTES)} != "true" || '
        f'(has(object.spec.completionMode) && object.spec.completionMode == "Indexed")'
    ),
}
_POD_CHECKS = {
    **_LIMIT_CHECK,
    "a pod of a group must set the size of the group: kueue.x-k8s.io/pod-group-total-count": (
        f"!({_has('pod-group-name')}) || (({_has('pod-group-total-count', _NOTES)}) && "
        f'{_label("pod-group-total-count", _NOTES)}.matches("^[1-9][0-9]{{0,8}}$"))'
    ),
    "the label kueue.x-k8s.io/queue-name is not the name of a LocalQueue": (
        f'{_label("queue-name")}.matches("{_NAME}")'
    ),
}
JOB_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *in_default_queue(mutating("default-queue", _JOBS, _UNQUEUED, _DEFAULT)),
    *if_managed(mutating("managed-jobs", _JOBS, _MANAGED, _MARKED)),
    *mutating("jobs", _JOBS, {"queued": QUEUED, "own": NOT_OWNED}, _SUSPEND),
    *if_managed(mutating("managed-pods", [rule("", "pods", "CREATE")], _MANAGED_PODS, _MARKED_POD)),
    *mutating("pods", [rule("", "pods", "CREATE")], {"queued": QUEUED, "own": NOT_OWNED}, _POD_SCHEDULER),
    *validating(
        "checked-jobs",
        [rule("batch", "jobs", "CREATE", "UPDATE")],
        {"queued": QUEUED_BEFORE, "own": NOT_OWNED, **ALIVE},
        _JOB_CHECKS,
    ),
    *validating("checked-pods", [rule("", "pods", "CREATE")], {"queued": QUEUED, "own": NOT_OWNED}, _POD_CHECKS),
)


_USER = "phalanx.dev/user"
_LABELS_BEFORE = "oldObject.metadata.labels"
_NEW_IN_ITS_QUEUE = (
    f'request.operation == "CREATE" || !has({_LABELS_BEFORE}) || !("{QUEUE_LABEL}" in {_LABELS_BEFORE} || '
    f'"phalanx.dev/queue" in {_LABELS_BEFORE})'
)
_SIGNATURE = f'Object{{metadata: Object.metadata{{annotations: {{"{_USER}": request.userInfo.username}}}}}}'
_SIGNED_HERE = (JOBS, *(kind for kind in FRAMEWORKS if kind not in SIGNED_BY_THEIR_DIALECT))
_RULES = [rule(kind.group, kind.plural, "CREATE", "UPDATE", versions=(kind.version,)) for kind in _SIGNED_HERE]

SIGNATURE_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *mutating("users", _RULES, {"queued": QUEUED, "own": NOT_OWNED, "new": _NEW_IN_ITS_QUEUE}, _SIGNATURE),
)
