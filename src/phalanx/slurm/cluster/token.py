"""The token of a job: with it srun in the job's pods reaches these pods, records its steps, and touches nothing else.

Pods of the image `host` are their user's processes and have his kubeconfig. Those of other images have none, so they
run as a service account of the job's own, whose rights name the job's objects one by one. RBAC cannot name pods that do
not exist yet, and a Job's pods get random names; so it grants `pods/exec`, and a rule of admission
(`admission`) holds each such account to the pods of its job, which begin with its name. No pod can be read by
it: pods of several nodes tell where they are by an annotation of the Job (`jobs.steps.pods.told`).

Whoever submits gives these rights, so they are never more than his own: the API server sees to it (RBAC's rule against
escalation). They belong to the job's Secret, and go with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.slurm.cluster.api import Api, Object, Refused

_GROUP = "rbac.authorization.k8s.io"
_PLACES = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": f"/apis/{_GROUP}/v1/namespaces/{{namespace}}/roles",
    "RoleBinding": f"/apis/{_GROUP}/v1/namespaces/{{namespace}}/rolebindings",
}


def give(api: Api, jobs: Sequence[str], secrets: Sequence[Object]) -> str:
    """Make the service account of these Jobs: an array's tasks, which share a Secret, or the components of a
    heterogeneous job, each of which has its own. Return its name, or nothing where whoever submits may not give it
    rights: such a job runs, and its pods have no token. Raises Refused."""
    named = [one["metadata"]["name"] for one in secrets]
    name = named[0] if len(named) == 1 else f"{named[0]}.{len(named)}"  # as `admission` reads it
    try:
        for part in objects(name, jobs, named, api.namespace, secrets[0]["metadata"]["uid"]):
            api.create(_PLACES[part["kind"]], part)
    except Refused as error:
        if error.code != 403:
            raise
        return ""
    return str(name)


def objects(name: str, jobs: Sequence[str], secrets: Sequence[str], namespace: str, uid: str) -> tuple[Object, ...]:
    """Return the account, its role and what binds them. `uid`: of the first Secret, with which they go."""
    owner = {"apiVersion": "v1", "kind": "Secret", "name": secrets[0], "uid": uid}
    meta = {"name": name, "ownerReferences": [owner]}
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": list(jobs), "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(secrets), "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},  # of a WebSocket and of SPDY
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
