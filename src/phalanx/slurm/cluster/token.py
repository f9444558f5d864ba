"""The token of a job. With it, srun in the job's pods can reach these pods and record its steps, and nothing else.

Pods of the image `host` are processes of their user and have the user's kubeconfig. Pods of all other images have no
kubeconfig. They run as a service account of the job, whose role names each object of the job. RBAC cannot name pods
that do not exist yet, and the names of a Job's pods are random. So the role grants `pods/exec`, and an admission policy
(`admission`) limits each such account to pods whose names begin with its job's name. The account cannot read pods: the
pods of several nodes publish their addresses in annotations of the Job (`jobs.steps.pods.told`).

The submitter grants these rights, so they never exceed the submitter's own: the API server refuses privilege
escalation. The account and the role are owned by the job's Secret and deleted with it.
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
    """Create the service account of these Jobs: the tasks of an array, which share a Secret, or the components of a
    heterogeneous job, each with its own Secret. Return its name, or "" if the submitter may not grant the rights; the
    job then runs, and its pods have no token. Raises Refused."""
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
    """Return the account, its role and the role binding. `uid`: the uid of the first Secret, which owns them."""
    owner = {"apiVersion": "v1", "kind": "Secret", "name": secrets[0], "uid": uid}
    meta = {"name": name, "ownerReferences": [owner]}
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": list(jobs), "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": list(secrets), "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},  # WebSocket uses get, SPDY create
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
