"""The admission policy that makes a Job ours at its birth (kubernetes.md point 2, D9).

`spec.template.spec.schedulerName` cannot be changed later, so it is set together with `suspend` when a Job that
carries our queue or gang label is created: by a MutatingAdmissionPolicy, in the API server itself. So installing
Phalanx adds no webhook that could stop other people's pods, and a user writes one label and nothing else. A scheduler
that the user chose himself is left alone: such a Job is queued, and that scheduler binds what we plan (`pin`).

A server older than 1.36 does not serve the kind; Jobs must then say `suspend: true` themselves, and a Job that does not
is told so (`declare`).
"""

from __future__ import annotations

import logging

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import Kind
from phalanx.kube.labels import JOB, QUEUE, SCHEDULER_NAME

log = logging.getLogger(__name__)

_NAME = "jobs.phalanx.dev"
_GROUP = "admissionregistration.k8s.io"
POLICIES = Kind(group=_GROUP, plural="mutatingadmissionpolicies", name="MutatingAdmissionPolicy", namespaced=False)
BINDINGS = Kind(
    group=_GROUP, plural="mutatingadmissionpolicybindings", name="MutatingAdmissionPolicyBinding", namespaced=False
)

_OURS = f'has(object.metadata.labels) && ("{QUEUE}" in object.metadata.labels || "{JOB}" in object.metadata.labels)'
_NO_OTHER_MANAGER = '!has(object.spec.managedBy) || object.spec.managedBy == "kubernetes.io/job-controller"'
_SCHEDULER = "object.spec.template.spec.schedulerName"
_CHANGE = (
    "Object{spec: Object.spec{suspend: true, template: Object.spec.template{spec: Object.spec.template.spec{"
    f'schedulerName: !has({_SCHEDULER}) || {_SCHEDULER} == "default-scheduler" ? "{SCHEDULER_NAME}" : {_SCHEDULER}'
    "}}}}"
)

POLICY: Object = {
    "apiVersion": POLICIES.api_version,
    "kind": POLICIES.name,
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
BINDING: Object = {
    "apiVersion": BINDINGS.api_version,
    "kind": BINDINGS.name,
    "metadata": {"name": _NAME},
    "spec": {"policyName": _NAME},
}


async def install_policy(api: Connection) -> bool:
    """Create policy and binding where they are missing; False where the server does not serve or allow them."""
    for kind, body in ((POLICIES, POLICY), (BINDINGS, BINDING)):
        try:
            await api.create(kind, body)
        except ApiRefusal as error:
            if error.reason == "AlreadyExists":
                continue
            if error.code in (403, 404):
                log.warning("no admission policy: %s; Jobs must set suspend and schedulerName themselves", error)
                return False
            raise
    return True
