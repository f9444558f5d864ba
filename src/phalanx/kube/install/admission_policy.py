"""Define and install the admission policies that queue a new Job for Phalanx (docs/guide/kubernetes.md) and record the
creator of the Job.

`spec.template.spec.schedulerName` cannot be changed later, so a MutatingAdmissionPolicy sets it together with `suspend`
when a Job with a queue or gang label of Phalanx is created. Users have to set only one label. The policy runs in the
API server, so the creation of other pods never depends on a program of Phalanx. If the user names another scheduler,
the policy does not change the name: the Job is queued, and that scheduler binds the pods to the nodes that Phalanx
plans (`binding`).

The second policy writes the creator of a Job or of a framework's job (or the user who added the label later) into the
annotation `phalanx.dev/user`. Users cannot change this annotation, because limits and shares of users depend on it.

Only the scheduler may write its records on Jobs and pods (the start, the number of pods, the devices):
`records_policies` refuse other writers. These policies name the account of the scheduler. So they are installed only
where that account is known: by deploy/, which creates the account, and by `phalanx up --shared`, which runs the
scheduler itself.

API servers before 1.36 do not serve the kind MutatingAdmissionPolicy, unless an administrator enabled it (in 1.34 and
1.35). An API server without this kind can call a webhook that applies the same policies (`phalanx.extensions.webhook`).
Without the policies and the webhook, users must set `suspend: true` in their Jobs; otherwise the Job gets a reason that
asks the user to set it (`gang_spec`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import JOBS, Kind
from phalanx.client.policies import MUTATING, VALIDATING, bound
from phalanx.dialects.job_kinds.form import BY_ROLE
from phalanx.dialects.job_kinds.supported import SIGNED_BY_THEIR_DIALECT
from phalanx.kube.read.labels import JOB, QUEUE, REMOVABLE, SCHEDULER_NAME, USER, WRITTEN
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

log = logging.getLogger(__name__)

_NAME, _USERS = "jobs.phalanx.dev", "users.phalanx.dev"
_GROUP = "admissionregistration.k8s.io"
_OURS = f'has(object.metadata.labels) && ("{QUEUE}" in object.metadata.labels || "{JOB}" in object.metadata.labels)'
_NO_OTHER_MANAGER = '!has(object.spec.managedBy) || object.spec.managedBy == "kubernetes.io/job-controller"'
_SCHEDULER = "object.spec.template.spec.schedulerName"
_CHANGE = (
    "Object{spec: Object.spec{suspend: true, template: Object.spec.template{spec: Object.spec.template.spec{"
    f'schedulerName: !has({_SCHEDULER}) || {_SCHEDULER} == "default-scheduler" ? "{SCHEDULER_NAME}" : {_SCHEDULER}'
    "}}}}"
)

POLICY: Object = {
    "apiVersion": MUTATING.api_version,
    "kind": MUTATING.name,
    "metadata": {"name": _NAME},
    "spec": {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
            ]
        },
        "matchConditions": [
            {"name": "ours", "expression": _OURS},
            {"name": "of-the-job-controller", "expression": _NO_OTHER_MANAGER},
        ],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _CHANGE}}],
    },
}


def _ours(obj: str) -> str:
    return _OURS.replace("object.", f"{obj}.")


def _signed(obj: str) -> str:
    return f'has({obj}.metadata.annotations) && "{USER}" in {obj}.metadata.annotations'


_OLD, _NEW = (f'{obj}.metadata.annotations["{USER}"]' for obj in ("oldObject", "object"))
_SIGNATURE = (
    f'Object{{metadata: Object.metadata{{annotations: {{"{USER}": request.operation == "UPDATE" && '
    f"({_signed('oldObject')}) ? {_OLD} : request.userInfo.username}}}}}}"
)
# The policy also applies if only the old object has the signature, so that no write can remove both the label and the
# signature.
_OURS_OR_SIGNED = f'({_OURS}) || ({_signed("object")}) || (request.operation == "UPDATE" && {_signed("oldObject")})'
# On updates, sign only if the update would change the signature, or if it adds Phalanx's label to a Job.
_SIGN = (
    f'request.operation == "CREATE" || (({_signed("oldObject")}) ? !({_signed("object")}) || {_OLD} != {_NEW} : '
    f"({_signed('object')}) || !({_ours('oldObject')}))"
)


def _rules_of(kinds: Iterable[Kind]) -> tuple[Object, ...]:
    """Return the resource rules of a policy for objects of these kinds: one rule for each API group and version. Kinds
    that the cluster does not define are included."""
    plurals: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        plurals.setdefault((kind.group, kind.version), []).append(kind.plural)
    return tuple(
        {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"], "resources": found}
        for (group, version), found in plurals.items()
    )


_SIGNED_HERE = [kind for kind in FRAMEWORK_KINDS if kind not in SIGNED_BY_THEIR_DIALECT]
USERS_POLICY: Object = {
    "apiVersion": MUTATING.api_version,
    "kind": MUTATING.name,
    "metadata": {"name": _USERS},
    "spec": {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["batch"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["jobs"],
                },
                *_rules_of(_SIGNED_HERE),
            ]
        },
        "matchConditions": [
            {"name": "ours-or-signed", "expression": _OURS_OR_SIGNED},
            {"name": "not-signed-yet", "expression": _SIGN},
        ],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _SIGNATURE}}],
    },
}


INSTALLED = ((MUTATING, POLICY), bound(MUTATING, _NAME), (MUTATING, USERS_POLICY), bound(MUTATING, _USERS))


# Only the scheduler may write the scheduler's annotations. Users may remove a record (the Job is then queued).
ACCOUNT = "system:serviceaccount:phalanx-system:phalanx"


def _not_the_scheduler(account: str) -> str:
    return f'request.userInfo.username != "{account}"'


def _said(obj: str, key: str) -> str:
    return f'has({obj}.metadata.annotations) && "{key}" in {obj}.metadata.annotations'


def _untouched(key: str) -> str:
    """Return a CEL expression that is true if a write does not change the annotation `key`. If users may remove this
    annotation, the expression is also true for a write that removes it."""
    now, then = _said("object", key), f'request.operation == "UPDATE" && {_said("oldObject", key)}'
    same = f'object.metadata.annotations["{key}"] == oldObject.metadata.annotations["{key}"]'
    return f"(({now}) ? {then} && {same} : {'true' if key in REMOVABLE else f'!({then})'})"


def _of_roles_untouched() -> str:
    """Return a CEL expression that is true if a write changes no annotation about a single role of a framework's job.
    The keys of these annotations have the form `KEY.ROLE`."""
    now, then = (f"(has({one}.metadata.annotations) ? {one}.metadata.annotations : {{}})" for one in _STATES)
    is_own = " || ".join(f'key.startsWith("{key}.")' for key in BY_ROLE)
    before = f'request.operation == "UPDATE" && key in {then} && {then}[key] == {now}[key]'
    kept = f"{then}.all(key, !({is_own}) || key in {now})"
    return f'({now}.all(key, !({is_own}) || ({before})) && (request.operation != "UPDATE" || {kept}))'


_STATES = ("object", "oldObject")
_UNTOUCHED = " && ".join([*map(_untouched, WRITTEN), _of_roles_untouched()])
# KubeRay copies a RayJob's annotations to its RayCluster. Phalanx does not read the copies.
_COPIED = (
    'request.operation == "CREATE" && '
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && "
    'o.controller && o.kind in ["RayJob", "RayService"] && o.apiVersion.startsWith("ray.io/"))'
)


def _records_policy(scheduler: str, name: str, group: str, plural: str, *others: Object, failure: str) -> Object:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [plural]}
    return {
        "apiVersion": VALIDATING.api_version,
        "kind": VALIDATING.name,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": failure,
            "matchConstraints": {"resourceRules": [rule, *others]},
            "matchConditions": [
                {"name": "not-the-scheduler", "expression": _not_the_scheduler(scheduler)},
                {"name": "not-copied-to-a-part", "expression": f"!({_COPIED})"},
            ],
            "validations": [
                {
                    "message": f"only the scheduler may write the annotations {', '.join(WRITTEN)}: leave them "
                    f"out, or unchanged; {' and '.join(REMOVABLE)} may be removed",
                    "expression": _UNTOUCHED,
                }
            ],
        },
    }


def _records_of_jobs(scheduler: str) -> Object:
    rules = _rules_of(FRAMEWORK_KINDS)
    return _records_policy(scheduler, "job-records.phalanx.dev", "batch", "jobs", *rules, failure="Fail")


def records_policies(scheduler: str, of_pods: str = "Ignore") -> tuple[tuple[Kind, Object], ...]:
    """Return the policies by which only the scheduler may write its records, and their bindings. `scheduler`: the user
    name of the scheduler. `of_pods`: the failure policy of the policy for pods. In a real cluster it must be `Ignore`,
    because Phalanx must never block foreign pods."""
    of_jobs = _records_of_jobs(scheduler)
    pods = _records_policy(scheduler, "pod-records.phalanx.dev", "", "pods", failure=of_pods)
    policies = ((VALIDATING, policy, policy["metadata"]["name"]) for policy in (of_jobs, pods))
    return tuple(pair for kind, policy, name in policies for pair in ((kind, policy), bound(kind, name)))


RECORDS_OF_JOBS = _records_of_jobs(ACCOUNT)
RECORDS_POLICIES = records_policies(ACCOUNT)


GUARDED = (JOBS, *FRAMEWORK_KINDS)  # the kinds of objects that the policies check

# API servers without MutatingAdmissionPolicy can call `phalanx webhook`, which applies the policies above. One call
# applies all of them: the first policy changes the Job, the second signs the Job, and the third refuses other writers
# of the scheduler's records. Match conditions (since Kubernetes 1.28) exclude all other requests. So while no webhook
# runs, only requests for objects with Phalanx's label fail.
WEBHOOKS = Kind(
    group=_GROUP, plural="mutatingwebhookconfigurations", name="MutatingWebhookConfiguration", namespaced=False
)
SERVICE, SERVICE_NAMESPACE, PATH = "phalanx-webhook", "phalanx-system", "/admit"
WEBHOOK: Object = {
    "apiVersion": WEBHOOKS.api_version,
    "kind": WEBHOOKS.name,
    "metadata": {"name": "admission.phalanx.dev"},
    "webhooks": [
        {
            "name": "admission.phalanx.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": SERVICE, "namespace": SERVICE_NAMESPACE, "port": 443, "path": PATH}},
            "rules": RECORDS_OF_JOBS["spec"]["matchConstraints"]["resourceRules"],
            "matchConditions": [
                {
                    "name": "not-signed-yet-or-forged",
                    "expression": f"(({_OURS_OR_SIGNED}) && ({_SIGN})) || ({_not_the_scheduler(ACCOUNT)} && "
                    f"!({_COPIED}) && !({_UNTOUCHED}))",
                }
            ],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": 5,
        }
    ],
}


class AdmissionMode(Enum):
    """The mechanism that queues Jobs for Phalanx in a cluster. The value is a text that describes the mechanism to
    users."""

    POLICY = "the API server queues Jobs with Phalanx's label, by its admission policies"
    WEBHOOK = "the API server queues Jobs with Phalanx's label, by calling `phalanx webhook`"
    NEITHER = (
        "the API server does not queue Jobs with Phalanx's label: users must set suspend: true and schedulerName: "
        "phalanx, and other Jobs run at once. No Job has a record of its creator, so limits and shares of users have "
        "no effect. Install deploy/overlays/webhook (before Kubernetes 1.36) or deploy/overlays/mutating"
    )


async def install_policy(api: Connection) -> AdmissionMode:
    """Return the mechanism that queues Jobs for Phalanx in this cluster. If there is none yet, create the policies and
    their bindings, provided that the API server serves these kinds and allows their creation.

    API servers of Kubernetes 1.34 and 1.35 serve these policies only as v1beta1, and only if an administrator has
    enabled them. Existing policies stay unchanged, because deploy/, which created them, also updates them. So the
    scheduler needs no right to write existing policies.
    """
    asks = await _asks_webhook(api)
    refusal: ApiRefusal | None = None
    for version in ("v1", "v1beta1"):
        refusal = await _install(api, version, make=not asks)
        if refusal is None:
            return AdmissionMode.POLICY
    if asks:
        return AdmissionMode.WEBHOOK
    log.warning("%s (%s)", AdmissionMode.NEITHER.value, refusal)
    return AdmissionMode.NEITHER


async def _asks_webhook(api: Connection) -> bool:
    """Return whether a webhook with the policies is configured."""
    try:
        found = await api.get(WEBHOOKS, WEBHOOK["metadata"]["name"])
    except ApiRefusal as error:
        if error.code not in (403, 404):
            raise
        return False
    if not all(hook["clientConfig"].get("caBundle") for hook in found.get("webhooks") or ()):
        log.warning("the configuration of the webhook has no caBundle yet: check that `phalanx webhook` runs")
    return True


async def _install(api: Connection, version: str, *, make: bool) -> ApiRefusal | None:
    """Create the policies that do not exist yet. Return the API server's refusal if this version of their API is not
    served, or if they may not be created; otherwise None. If `make` is False, only check whether the policies exist."""
    for kind, body in INSTALLED:
        served = kind._replace(version=version)
        try:
            await api.get(served, body["metadata"]["name"])
            continue
        except ApiRefusal as error:
            if error.code not in (403, 404):
                raise
            if not make:
                return error
        try:
            await api.create(served, {**body, "apiVersion": served.api_version})
        except ApiRefusal as error:
            if error.code in (403, 404):
                return error
            if error.reason != "AlreadyExists":
                raise
    return None
