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


def give(api: Api, jobs: Sequence[str], secret: Object) -> str:
    """Make the service account of these Jobs, which share a Secret; return its name, or nothing where whoever submits
    may not give it rights: such a job runs, and its pods have no token. Raises Refused."""
    name = secret["metadata"]["name"]
    try:
        for part in objects(name, jobs, api.namespace, secret["metadata"]["uid"]):
            api.create(_PLACES[part["kind"]], part)
    except Refused as error:
        if error.code != 403:
            raise
        return ""
    return str(name)


def objects(name: str, jobs: Sequence[str], namespace: str, secret_uid: str) -> tuple[Object, ...]:
    """Return the account, its role and what binds them."""
    owner = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret_uid}
    meta = {"name": name, "ownerReferences": [owner]}
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": list(jobs), "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get"]},
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
