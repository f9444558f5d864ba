"""The order in which Go prints the fields of an object: the order in its struct, and for maps the order of their keys.

Messages that quote an object as JSON show its fields in this order. In most structs the protobuf numbers of the fields
follow the same order. `_ORDERS` lists the exceptions: structs into which Kubernetes later inserted fields between
existing ones. Source: the types.go files of k8s.io/api at Kubernetes 1.36.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from phalanx.embedded.apimachinery.schema.schema import Type
from phalanx.embedded.apiserver.transport.protobuf.messages import numbers

_ORDERS: Mapping[str, str] = {
    "ObjectMeta": "name generateName namespace selfLink uid resourceVersion generation creationTimestamp "
    "deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
    "ServicePort": "name protocol appProtocol port targetPort nodePort",
    "ServiceSpec": "ports selector clusterIP clusterIPs type externalIPs sessionAffinity loadBalancerIP "
    "loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses "
    "sessionAffinityConfig ipFamilies ipFamilyPolicy",
    "JobSpec": "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit "
    "backoffLimitPerIndex maxFailedIndexes selector manualSelector template",
    "JobStatus": "conditions startTime completionTime active succeeded failed terminating completedIndexes "
    "failedIndexes uncountedTerminatedPods ready",
    "PodSpec": "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds "
    "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken "
    "nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname subdomain "
    "affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates "
    "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os "
    "hostUsers schedulingGates resourceClaims resources",
    "PodStatus": "observedGeneration phase conditions message reason nominatedNodeName hostIP hostIPs podIP podIPs",
    "Container": "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy "
    "restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle "
    "terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext",
    "PersistentVolumeClaimSpec": "accessModes selector resources volumeName",
    "ManagedFieldsEntry": "manager operation apiVersion time fieldsType fieldsV1 subresource",
    "ObjectReference": "kind namespace name uid apiVersion resourceVersion fieldPath",
    "OwnerReference": "apiVersion kind name uid controller blockOwnerDeletion",
    "LimitRangeItem": "type max min default defaultRequest maxLimitRequestRatio",
}


def in_go_order(value: object, kind: Type | None) -> object:
    """Return a value of a built-in type with its keys in Go's order."""
    match value:
        case list():
            return [in_go_order(one, kind and kind.items) for one in value]
        case dict() if kind is not None and kind.shape == "object":
            order = _order(kind.name)
            keys = sorted(value, key=lambda key: (order.get(key, len(order)), key))
            return {key: in_go_order(value[key], kind.fields.get(key)) for key in keys}
        case dict():
            inner = kind.items if kind is not None else None
            return {key: in_go_order(value[key], inner) for key in sorted(value)}
    return value


@cache
def _order(name: str) -> Mapping[str, int]:
    """Return the position of each field of a definition. The fields kind and apiVersion are embedded, and come
    first."""
    stated = _ORDERS.get(name.rpartition(".")[2], "").split()
    numbered = [field.name for field in sorted(numbers().get(name, ()), key=lambda field: field.number)]
    head = [] if "apiVersion" in stated else ["kind", "apiVersion"]
    names = [*head, *stated, *(one for one in numbered if one not in stated)]
    return {field: place for place, field in enumerate(dict.fromkeys(names))}
