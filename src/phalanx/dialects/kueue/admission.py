"""What Kueue's webhooks do, as admission policies of the API server (CEL): no webhook can be down.

Mutations: a Job that names a LocalQueue is created suspended, for our scheduler; a bare pod that names one waits for
our scheduler. Validations refuse what Kueue's webhooks refuse, with their code (403 Forbidden; what the schemas refuse
is 422 Invalid).

Sources: pkg/webhooks and pkg/controller/jobs/{job,pod}/*_webhook.go of v0.19.2.
"""

from __future__ import annotations

from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame import Object
from phalanx.dialects.kueue import kinds

_GROUP = "admissionregistration.k8s.io"
_MUTATING = Kind(group=_GROUP, plural="mutatingadmissionpolicies", name="MutatingAdmissionPolicy", namespaced=False)
_VALIDATING = Kind(
    group=_GROUP, plural="validatingadmissionpolicies", name="ValidatingAdmissionPolicy", namespaced=False
)


def _bound(kind: Kind) -> Kind:
    return Kind(
        group=_GROUP,
        plural=kind.plural.replace("policies", "policybindings"),
        name=f"{kind.name}Binding",
        namespaced=False,
    )


_LABELS = "object.metadata.labels"
_QUEUED = f'has({_LABELS}) && "{kinds.QUEUE_LABEL}" in {_LABELS} && !("phalanx.dev/queue" in {_LABELS})'
_NOT_OWNED = (
    "!has(object.metadata.ownerReferences) || "
    "!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
_SCHEDULER = "object.spec.template.spec.schedulerName"
_SUSPEND = (
    "Object{spec: Object.spec{suspend: true, template: Object.spec.template{spec: Object.spec.template.spec{"
    f'schedulerName: !has({_SCHEDULER}) || {_SCHEDULER} == "default-scheduler" ? "phalanx" : {_SCHEDULER}'
    "}}}}"
)
_UNQUEUED = {
    "names-no-queue": f'!has({_LABELS}) || !({_LABELS}.exists(k, k == "{kinds.QUEUE_LABEL}" || '
    'k in ["phalanx.dev/queue", "phalanx.dev/job"]))',
    "own": _NOT_OWNED,
    "of-the-job-controller": '!has(object.spec.managedBy) || object.spec.managedBy == "kubernetes.io/job-controller"',
    "of-users": 'object.metadata.namespace != "kube-system" && object.metadata.namespace != "kueue-system"',
}
_DEFAULT = _SUSPEND.replace(
    "Object{spec:", f'Object{{metadata: Object.metadata{{labels: {{"{kinds.QUEUE_LABEL}": "default"}}}}, spec:', 1
)
_POD_SCHEDULER = (
    "Object{spec: Object.spec{schedulerName: !has(object.spec.schedulerName) || object.spec.schedulerName == "
    '"default-scheduler" ? "phalanx" : object.spec.schedulerName}}'
)


def _rule(group: str, plural: str, *operations: str, versions: tuple[str, ...] = ("v1",)) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": [plural],
    }


def _mutating(name: str, rule: Object, conditions: dict[str, str], change: str) -> list[tuple[Kind, Object]]:
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}],
    }
    return _with_binding(_MUTATING, name, spec, {})


def _defaulted() -> list[tuple[Kind, Object]]:
    """A Job that names no queue is of the LocalQueue `default` of its namespace, where there is one. It concerns every
    Job, so where it cannot be evaluated it stands in nobody's way."""
    found = _mutating("default-queue", _rule("batch", "jobs", "CREATE"), _UNQUEUED, _DEFAULT)
    (kind, policy), (bound, binding) = found
    local = {"apiVersion": kinds.LOCAL_QUEUES.api_version, "kind": kinds.LOCAL_QUEUES.name}
    policy["spec"] |= {"failurePolicy": "Ignore", "paramKind": local}
    binding["spec"]["paramRef"] = {"name": "default", "parameterNotFoundAction": "Allow"}
    return [(kind, policy), (bound, binding)]


def _validating(
    name: str, rules: list[Object], conditions: dict[str, str], checks: dict[str, str]
) -> list[tuple[Kind, Object]]:
    """`checks`: message -> what must hold."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": key, "expression": text} for key, text in conditions.items()],
        "validations": [
            {"expression": text, "message": message, "reason": "Forbidden"} for message, text in checks.items()
        ],
    }
    return _with_binding(_VALIDATING, name, spec, {"validationActions": ["Deny"]})


def _with_binding(kind: Kind, name: str, spec: Object, binding: dict[str, Any]) -> list[tuple[Kind, Object]]:
    full, bound = f"{name}.kueue.phalanx.dev", _bound(kind)
    return [
        (kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": full}, "spec": spec}),
        (
            bound,
            {
                "apiVersion": bound.api_version,
                "kind": bound.name,
                "metadata": {"name": full},
                "spec": {"policyName": full, **binding},
            },
        ),
    ]


_NOTES, _OLD_LABELS = "object.metadata.annotations", "oldObject.metadata.labels"
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def _label(key: str, of: str = _LABELS) -> str:
    return f'{of}["{kinds.PREFIX}{key}"]'


def _has(key: str, of: str = _LABELS) -> str:
    return f'has({of}) && "{kinds.PREFIX}{key}" in {of}'


def _same(key: str) -> str:
    """A label is on both, and the same, or on none."""
    before, after = f"({_has(key, _OLD_LABELS)})", f"({_has(key)})"
    return f"{before} == {after} && (!{after} || {_label(key)} == {_label(key, _OLD_LABELS)})"


def _fixed(key: str) -> str:
    return f'request.operation != "UPDATE" || (has(oldObject.spec.suspend) && oldObject.spec.suspend) || ({_same(key)})'


_JOB_CHECKS = {
    "the label kueue.x-k8s.io/queue-name is not the name of a LocalQueue": (
        f'{_label("queue-name")}.matches("{_NAME}")'
    ),
    "kueue.x-k8s.io/max-exec-time-seconds is a whole number above 0": (
        f'!({_has("max-exec-time-seconds")}) || {_label("max-exec-time-seconds")}.matches("^[1-9][0-9]{{0,8}}$")'
    ),
    "kueue.x-k8s.io/job-min-parallelism is a whole number above 0 and below parallelism": (
        f"!({_has('job-min-parallelism', _NOTES)}) || "
        f'({_label("job-min-parallelism", _NOTES)}.matches("^[1-9][0-9]{{0,8}}$") && '
        f'(request.operation == "UPDATE" || '
        f"int({_label('job-min-parallelism', _NOTES)}) < (has(object.spec.parallelism) ? object.spec.parallelism : 1)))"
    ),
    "kueue.x-k8s.io/job-completions-equal-parallelism is for Indexed Jobs with equal numbers": (
        f"!({_has('job-completions-equal-parallelism', _NOTES)}) || "
        f'{_label("job-completions-equal-parallelism", _NOTES)} != "true" || '
        f'(has(object.spec.completionMode) && object.spec.completionMode == "Indexed")'
    ),
    "kueue.x-k8s.io/queue-name cannot change while the Job is not suspended": _fixed("queue-name"),
    "kueue.x-k8s.io/priority-class cannot be added or taken away while the Job is not suspended": (
        'request.operation != "UPDATE" || (has(oldObject.spec.suspend) && oldObject.spec.suspend) || '
        f"({_has('priority-class', _OLD_LABELS)}) == ({_has('priority-class')})"
    ),
    "kueue.x-k8s.io/max-exec-time-seconds cannot change while the Job is not suspended": _fixed(
        "max-exec-time-seconds"
    ),
}
_POD_CHECKS = {
    "a pod of a group names its size: kueue.x-k8s.io/pod-group-total-count": (
        f"!({_has('pod-group-name')}) || (({_has('pod-group-total-count', _NOTES)}) && "
        f'{_label("pod-group-total-count", _NOTES)}.matches("^[1-9][0-9]{{0,8}}$"))'
    ),
    "the label kueue.x-k8s.io/queue-name is not the name of a LocalQueue": (
        f'{_label("queue-name")}.matches("{_NAME}")'
    ),
}
_GROUPS = "has(object.spec.resourceGroups)"
_SELECTOR = "object.spec.namespaceSelector"
_QUEUE_CHECKS = {
    "namespaceSelector: an operator is none of In, NotIn, Exists, DoesNotExist, or has the wrong values": (
        f"!has({_SELECTOR}) || !has({_SELECTOR}.matchExpressions) || {_SELECTOR}.matchExpressions.all(e, "
        '(e.operator in ["In", "NotIn"] && has(e.values) && size(e.values) > 0) || '
        '(e.operator in ["Exists", "DoesNotExist"] && (!has(e.values) || size(e.values) == 0)))'
    ),
    "fairSharing.weight is 0 or above 1e-9": (
        "!has(object.spec.fairSharing) || !has(object.spec.fairSharing.weight) || "
        'quantity(string(object.spec.fairSharing.weight)).compareTo(quantity("0")) >= 0'
    ),
    "a resource is in one resource group": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.coveredResources.all(r, "
        "object.spec.resourceGroups.filter(h, r in h.coveredResources).size() == 1))"
    ),
    "a flavor is in one resource group, once": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, "
        "object.spec.resourceGroups.map(h, h.flavors.filter(k, k.name == f.name).size()).filter(n, n > 0) == [1]))"
    ),
    "a flavor lists the covered resources in their order": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, "
        "f.resources.map(r, r.name) == g.coveredResources))"
    ),
    "no quota is below 0": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, "
        'quantity(string(r.nominalQuota)).compareTo(quantity("0")) >= 0 && '
        '(!has(r.borrowingLimit) || quantity(string(r.borrowingLimit)).compareTo(quantity("0")) >= 0) && '
        '(!has(r.lendingLimit) || quantity(string(r.lendingLimit)).compareTo(quantity("0")) >= 0))))'
    ),
}
_IN_COHORT = "has(object.spec.cohortName) && object.spec.cohortName != '' || has(object.spec.cohort)"
_LENDING_CHECKS = {
    "lendingLimit needs a cohort": (
        f"!{_GROUPS} || {_IN_COHORT} || object.spec.resourceGroups.all(g, g.flavors.all(f, "
        "f.resources.all(r, !has(r.lendingLimit))))"
    ),
    "lendingLimit is at most nominalQuota": (
        f"!{_GROUPS} || object.spec.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.lendingLimit) || "
        "quantity(string(r.lendingLimit)).compareTo(quantity(string(r.nominalQuota))) <= 0)))"
    ),
}
_FLAVOR_CHECKS = {
    "a taint is listed once": (
        "!has(object.spec.nodeTaints) || object.spec.nodeTaints.all(t, object.spec.nodeTaints.filter(o, "
        "o.key == t.key && o.effect == t.effect).size() == 1)"
    ),
}
_VERSIONS = ("v1beta1", "v1beta2")


def _definition_rule(plural: str) -> list[Object]:
    return [_rule(kinds.GROUP, plural, "CREATE", "UPDATE", versions=_VERSIONS)]


_ALIVE = {"alive": "!has(object.metadata.deletionTimestamp)"}
_SPEC = {**_ALIVE, "has-spec": "has(object.spec)"}
POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *_defaulted(),
    *_mutating("jobs", _rule("batch", "jobs", "CREATE"), {"queued": _QUEUED, "own": _NOT_OWNED}, _SUSPEND),
    *_mutating("pods", _rule("", "pods", "CREATE"), {"queued": _QUEUED, "own": _NOT_OWNED}, _POD_SCHEDULER),
    *_validating(
        "checked-jobs",
        [_rule("batch", "jobs", "CREATE", "UPDATE")],
        {"queued": _QUEUED, "own": _NOT_OWNED, **_ALIVE},
        _JOB_CHECKS,
    ),
    *_validating("checked-pods", [_rule("", "pods", "CREATE")], {"queued": _QUEUED, "own": _NOT_OWNED}, _POD_CHECKS),
    *_validating(
        "checked-clusterqueues", _definition_rule("clusterqueues"), _SPEC, {**_QUEUE_CHECKS, **_LENDING_CHECKS}
    ),
    *_validating("checked-resourceflavors", _definition_rule("resourceflavors"), _SPEC, _FLAVOR_CHECKS),
)
