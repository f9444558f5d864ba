"""The definition of PyTorchJob, as far as this cluster runs it: kubeflow.org/v1, of the Kubeflow training operator.

Written from the API's documentation, so that manifests made for the operator are taken here. An existing
definition, for example the operator's own, is not changed.

The types of the fields of pod and Job templates, for the definitions of kinds with templates.

Fields that operators read or write have the same types here, and are required, as in the operators' definitions. Other
fields are accepted, because the server validates them with the pod. So a template with an error in such a field is
refused at its creation, with the field's name, and not later by an operator.

Source: the CustomResourceDefinitions of the training operator 1.9, the MPI operator 0.6 and JobSet 0.12, which spell
out core/v1 PodTemplateSpec and batch/v1 JobSpec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phalanx.client.connection import Object
from phalanx.client.kind import CRDS, Kind
from phalanx.embedded.controllers.operators.training.pods import MOST_REPLICAS

OPEN: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Final[Object] = {"type": "string"}
_INTEGER: Final[Object] = {"type": "integer"}
_FLAG: Final[Object] = {"type": "boolean"}
_TEXTS: Final[Object] = {"type": "object", "additionalProperties": _TEXT}
_AMOUNTS: Final[Object] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}


def _fields(*required: str, **properties: Any) -> Object:
    return {**OPEN, "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


def _each(schema: Object, names: str) -> dict[str, Object]:
    return dict.fromkeys(names.split(), schema)


_META = _fields(labels=_TEXTS, annotations=_TEXTS)
_CONTAINER = _fields(
    "name",
    **_each(_TEXT, "name image imagePullPolicy workingDir restartPolicy"),
    **_each(_list(_TEXT), "command args"),
    **_each(OPEN, "lifecycle livenessProbe readinessProbe startupProbe securityContext"),
    env=_list(_fields("name", name=_TEXT, value=_TEXT, valueFrom=OPEN)),
    envFrom=_list(OPEN),
    ports=_list(_fields("containerPort", containerPort=_INTEGER, name=_TEXT)),
    resources=_fields(limits=_AMOUNTS, requests=_AMOUNTS, claims=_list(OPEN)),
    volumeMounts=_list(_fields("mountPath", "name", mountPath=_TEXT, name=_TEXT)),
)


def _pod(*required: str) -> Object:
    return _fields(
        *required,
        **_each(_list(_CONTAINER), "containers initContainers"),
        **_each(_list(OPEN), "tolerations schedulingGates imagePullSecrets resourceClaims topologySpreadConstraints"),
        **_each(OPEN, "affinity securityContext dnsConfig"),
        **_each(_TEXT, "priorityClassName schedulerName hostname subdomain nodeName serviceAccountName restartPolicy"),
        **_each(_INTEGER, "activeDeadlineSeconds terminationGracePeriodSeconds priority"),
        **_each(_FLAG, "hostNetwork hostPID hostIPC automountServiceAccountToken"),
        volumes=_list(_fields("name", name=_TEXT)),
        nodeSelector=_TEXTS,
        overhead=_AMOUNTS,
    )


POD_TEMPLATE: Final = _fields(metadata=_META, spec=_pod("containers"))
_POD_PATCH: Final = _pod()
_JOB: Final = _fields(
    "template",
    **_each(_INTEGER, "parallelism completions backoffLimit backoffLimitPerIndex maxFailedIndexes"),
    **_each(_INTEGER, "activeDeadlineSeconds ttlSecondsAfterFinished"),
    **_each(_TEXT, "completionMode managedBy podReplacementPolicy"),
    **_each(OPEN, "selector podFailurePolicy successPolicy"),
    suspend=_FLAG,
    template=POD_TEMPLATE,
)
# The end of the path of a field that a definition leaves open -> its schema.
_SHAPES: Final[Mapping[tuple[str, ...], Object]] = {
    ("mpiReplicaSpecs", "template"): POD_TEMPLATE,
    ("replicatedJobs", "template", "spec"): _JOB,
    ("spec", "template", "spec"): _POD_PATCH,
}


def spelt_out(schema: Object, path: tuple[str, ...] = ()) -> Object:
    """Return the schema with the types of the templates that it leaves open."""
    if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
        shape = next((one for end, one in _SHAPES.items() if path[-len(end) :] == end), {})
        return {**schema, **shape}
    found = dict(schema)
    if properties := schema.get("properties"):
        found["properties"] = {name: spelt_out(one, (*path, name)) for name, one in properties.items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found[key] = spelt_out(schema[key], path)
    return found


PYTORCH_JOBS = Kind(group="kubeflow.org", plural="pytorchjobs", name="PyTorchJob")
_QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_COUNT = {"type": "integer", "format": "int32", "minimum": 0}


def _of(kind: str, **more: Any) -> Object:
    return {"type": kind, **more}


_REPLICAS = _of(
    "object",
    description="The pods of one replica type.",
    properties={
        "replicas": {**_COUNT, "maximum": MOST_REPLICAS, "description": "How many; default 1."},
        "restartPolicy": _of("string", enum=["Always", "OnFailure", "Never", "ExitCode"], description="OnFailure."),
        "template": {**POD_TEMPLATE, "description": "As a pod's. Its container `pytorch` is told who it is."},
    },
)
_SCHEDULING = _of(
    "object",
    description="How its pods start together.",
    properties={
        "minAvailable": {**_COUNT, "description": "So many start together; default all."},
        "queue": _of("string", description="Its queue, unless the label phalanx.dev/queue names one."),
        "priorityClass": _of("string", description="Of the whole, where the pods' templates name none."),
        "minResources": _of("object", additionalProperties=_QUANTITY),
        "scheduleTimeoutSeconds": _COUNT,
    },
)
_RUN_POLICY = _of(
    "object",
    description="How the job runs and what is left of it.",
    properties={
        "activeDeadlineSeconds": _of("integer", format="int64", minimum=1),
        "backoffLimit": _COUNT,
        "cleanPodPolicy": _of("string", enum=["", "None", "Running", "All"], description="Default None: pods stay."),
        "managedBy": _of("string", description="Another controller than this; it is then left alone."),
        "schedulingPolicy": _SCHEDULING,
        "suspend": _of("boolean", description="No pods while it is true."),
        "ttlSecondsAfterFinished": _COUNT,
    },
)
_SPEC = _of(
    "object",
    required=["pytorchReplicaSpecs"],
    properties={
        "elasticPolicy": OPEN,
        "nprocPerNode": _of("string", description="Processes of a pod: auto, cpu, gpu or a number."),
        "pytorchReplicaSpecs": _of(
            "object",
            description="Master (at most one pod) and Worker.",
            additionalProperties=_REPLICAS,
            **{
                "x-kubernetes-validations": [
                    {"rule": "self.all(name, name in ['Master', 'Worker'])", "message": "Master and Worker only"},
                    {
                        "rule": "!('Master' in self) || !has(self.Master.replicas) || self.Master.replicas <= 1",
                        "message": "there is at most one Master",
                    },
                ]
            },
        ),
        "runPolicy": _RUN_POLICY,
    },
)


# The operator's webhook refuses a job without a spec; here the schema does.
_WHOLE = _of("object", required=["spec"], properties={"spec": _SPEC, "status": OPEN})


def definition() -> Object:
    state = {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"}
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _WHOLE},
        "additionalPrinterColumns": [state, age],
        "subresources": {"status": {}},
    }
    names = {"plural": "pytorchjobs", "singular": "pytorchjob", "kind": "PyTorchJob", "listKind": "PyTorchJobList"}
    spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "pytorchjobs.kubeflow.org"}
    return {"apiVersion": CRDS.api_version, "kind": CRDS.name, "metadata": meta, "spec": spec}
