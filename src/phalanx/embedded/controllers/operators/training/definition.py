"""The definition of PyTorchJob, as far as this cluster runs it: kubeflow.org/v1, of the Kubeflow training operator.

Written from the API's documentation, so that manifests made for the operator are taken here. An existing
definition, for example the operator's own, is not changed.
"""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import CRDS, Kind
from phalanx.embedded.controllers.operators.training.pods import MOST_REPLICAS
from phalanx.embedded.controllers.operators.training.template import OPEN, POD_TEMPLATE

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
