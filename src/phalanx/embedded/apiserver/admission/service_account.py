"""The plug-in ServiceAccount: mount a token into each pod that names a service account, where client libraries expect
it.

The token, the certificate of the authority and the namespace appear as files below `MOUNT`, unless the pod or the
account has `automountServiceAccountToken: false`. Unlike the plug-in of kube-apiserver, it does nothing for a pod that
names no account. Such a pod stays as its author wrote it, and its containers have no rights in the API.

Source: k8s.io/kubernetes/plugin/pkg/admission/serviceaccount/admission.go.
"""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.objectmeta import generated
from phalanx.embedded.apimachinery.meta.resource import Object

MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_CA = "kube-root-ca.crt"  # the name of a ConfigMap that every namespace has
_PREFIX = "kube-api-access-"
_MODE = 0o644
_TOKEN_S = 3607  # a little more than an hour; the odd number makes such tokens recognizable


def mounts_token(pod: Object, account: Object) -> bool:
    """Return True if the pod gets a token. The pod's setting takes precedence over the account's."""
    for said in (pod["spec"].get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if said is not None:
            return bool(said)
    return True


def mount_token(spec: Object) -> None:
    """Mount the token into every container that has no other mount at that path."""
    name = generated(_PREFIX)
    wanting = [one for one in _containers(spec) if MOUNT not in _mount_paths(one)]
    for container in wanting:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if wanting:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": _projected()}]


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _mount_paths(container: Object) -> list[str]:
    return [mount["mountPath"] for mount in container.get("volumeMounts") or ()]


def _projected() -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "defaultMode": _MODE,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
            {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    }
