"""Build the pods and services of PyTorchJobs like the Kubeflow training operator, and the definition of the kind. The
first part builds the pods and services of a PyTorchJob, with the operator's names and labels. Pod i of a type has the
name `JOB-TYPE-i`; a headless service with the same name selects only this pod. The Master has rank 0; without a Master,
the first Worker has rank 0. The other pods find rank 0 by the host name in MASTER_ADDR. RANK and WORLD_SIZE count pods,
or processes if `nprocPerNode` is a number. The PET_ variables give torchrun the same values.

The second part has the schemas of pod and Job templates, for the definitions of all kinds with templates. A field that
operators read or write has the same type as in the operators' definitions, and is required if it is required there. So
an error in such a field is reported at the creation of the object, and not later by an operator. Other fields are
accepted, because the server validates them when it creates the pod.

The third part is the definition of PyTorchJob (kubeflow.org/v1) with the fields that this cluster supports. It follows
the API's documentation, so that manifests for the operator are accepted. An existing definition, such as that of the
operator, is not changed.

Source: the CustomResourceDefinitions of the training operator 1.9, the MPI operator 0.6 and JobSet 0.12, which contain
the schemas of core/v1 PodTemplateSpec and batch/v1 JobSpec.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from phalanx.client.connection import Object
from phalanx.client.kind import CRDS, Kind

OPERATOR = "pytorchjob-controller"
_GROUP = "training.kubeflow.org"
JOB, TYPE, INDEX = f"{_GROUP}/job-name", f"{_GROUP}/replica-type", f"{_GROUP}/replica-index"
_PORT_NAME, _PORT = "pytorchjob-port", 23456
MOST_REPLICAS = 10_000  # the maximum number of replicas of one type
TYPES = ("Master", "Worker")  # the replica types, in the order of their ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReplica:
    """A pod that the job should have. `rank`: the number of the pod, counted over all pods of the job."""

    type: str
    index: int
    rank: int
    name: str


def replica_specs(job: Object) -> dict[str, Mapping[str, Any]]:
    """Return replica type -> its spec, in the order of ranks."""
    specs = job["spec"].get("pytorchReplicaSpecs") or {}
    return {name: specs[name] for name in TYPES if name in specs}


def count(spec: Mapping[str, Any]) -> int:
    """Return the number of replicas of a type. Raises ValueError if there are more than `MOST_REPLICAS`."""
    found = 1 if spec.get("replicas") is None else int(spec["replicas"])
    if found > MOST_REPLICAS:
        raise ValueError(f"{found} replicas, but at most {MOST_REPLICAS} are allowed")
    return found


def restart_policy(spec: Mapping[str, object]) -> str:
    return str(spec.get("restartPolicy") or "OnFailure")


def replicas(job: Object) -> Iterator[TrainingReplica]:
    rank = 0
    for kind, spec in replica_specs(job).items():
        for index in range(count(spec)):
            name = f"{job['metadata']['name']}-{kind.lower()}-{index}"
            yield TrainingReplica(type=kind, index=index, rank=rank, name=name)
            rank += 1


def labels(job: Object, replica: TrainingReplica) -> dict[str, str]:
    own = {f"{_GROUP}/operator-name": OPERATOR, JOB: job["metadata"]["name"]}
    own |= {TYPE: replica.type.lower(), INDEX: str(replica.index)}
    return own | ({f"{_GROUP}/job-role": "master"} if replica.rank == 0 else {})


def selector(job: Object, kind: str) -> str:
    """Return the selector of all pods of the type, in the format of status.replicaStatuses."""
    own = {f"{_GROUP}/operator-name": OPERATOR, JOB: job["metadata"]["name"], TYPE: kind.lower()}
    return ",".join(f"{key}={own[key]}" for key in sorted(own))


def make_pod(job: Object, replica: TrainingReplica) -> Object:
    spec = replica_specs(job)[replica.type]
    template = copy.deepcopy(spec.get("template") or {})
    meta, body = template.get("metadata") or {}, template.get("spec") or {}
    policy = restart_policy(spec)
    body["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    for container in body.get("containers") or ():
        container["env"] = [*_environment(job, replica), *(container.get("env") or ())]
    metadata = {
        "name": replica.name,
        "labels": {**(meta.get("labels") or {}), **labels(job, replica)},
        "annotations": meta.get("annotations") or {},
        "ownerReferences": [owner_reference(job)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def make_service(job: Object, replica: TrainingReplica) -> Object:
    wanted = labels(job, replica)
    meta = {"name": replica.name, "labels": wanted, "ownerReferences": [owner_reference(job)]}
    spec = {
        "clusterIP": "None",
        "selector": {key: wanted[key] for key in (JOB, TYPE, INDEX)},
        "ports": [{"name": _PORT_NAME, "port": port(job, replica.type)}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def owner_reference(job: Object) -> dict[str, object]:
    meta = job["metadata"]
    named = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def port(job: Object, kind: str) -> int:
    """Return the port of rank 0: the container port with the name that the operator expects, or else the operator's
    default."""
    pod = (replica_specs(job)[kind].get("template") or {}).get("spec") or {}
    named = (one for container in pod.get("containers") or () for one in container.get("ports") or ())
    return next((int(one["containerPort"]) for one in named if one.get("name") == _PORT_NAME), _PORT)


def _environment(job: Object, replica: TrainingReplica) -> list[dict[str, str]]:
    first = next(replicas(job))
    nodes = sum(count(spec) for spec in replica_specs(job).values())
    processes = str(job["spec"].get("nprocPerNode") or "auto")
    each = int(processes) if processes.isdecimal() else 1
    listens = str(port(job, first.type))
    found = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": first.name,
        "MASTER_PORT": listens,
        "WORLD_SIZE": str(nodes * each),
        "RANK": str(replica.rank),
        "PET_MASTER_ADDR": first.name,
        "PET_MASTER_PORT": listens,
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(replica.rank),
        "PET_NPROC_PER_NODE": processes,
    }
    if (elastic := job["spec"].get("elasticPolicy")) is not None:
        found |= _elastic(elastic, first.name, listens, nodes)
    return [{"name": name, "value": value} for name, value in found.items()]


def _elastic(policy: Mapping[str, object], host: str, listens: str, nodes: int) -> dict[str, str]:
    """Return the environment variables for torchrun's rendezvous (torch.distributed.run), which counts the nodes
    itself."""
    least, most = policy.get("minReplicas") or nodes, policy.get("maxReplicas") or nodes
    found = {
        "PET_NNODES": f"{least}:{most}",
        "PET_RDZV_BACKEND": str(policy.get("rdzvBackend") or "c10d"),
        "PET_RDZV_ENDPOINT": f"{policy.get('rdzvHost') or host}:{policy.get('rdzvPort') or listens}",
    }
    for name, field in (("PET_RDZV_ID", "rdzvId"), ("PET_MAX_RESTARTS", "maxRestarts")):
        if policy.get(field) is not None:
            found[name] = str(policy[field])
    if policy.get("nProcPerNode") is not None:
        found["PET_NPROC_PER_NODE"] = str(policy["nProcPerNode"])
    return found


# --- types of templates -----------------------------------------------------------------------------------------------

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


def _fields(*required: str, **properties: object) -> Object:
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
# The schemas of fields for which a definition has no type. The key is the end of the field's path.
_SHAPES: Final[Mapping[tuple[str, ...], Object]] = {
    ("mpiReplicaSpecs", "template"): POD_TEMPLATE,
    ("replicatedJobs", "template", "spec"): _JOB,
    ("spec", "template", "spec"): _POD_PATCH,
}


def spelt_out(schema: Object, path: tuple[str, ...] = ()) -> Object:
    """Return the schema, with schemas of pod and Job templates added to fields without a type."""
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


# --- definition -------------------------------------------------------------------------------------------------------

PYTORCH_JOBS = Kind(group="kubeflow.org", plural="pytorchjobs", name="PyTorchJob")
_QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_COUNT = {"type": "integer", "format": "int32", "minimum": 0}


def _of(kind: str, **more: object) -> Object:
    return {"type": kind, **more}


_REPLICAS = _of(
    "object",
    description="The pods of one replica type.",
    properties={
        "replicas": {**_COUNT, "maximum": MOST_REPLICAS, "description": "How many; default 1."},
        "restartPolicy": _of("string", enum=["Always", "OnFailure", "Never", "ExitCode"], description="OnFailure."),
        "template": {**POD_TEMPLATE, "description": "A pod template. Container `pytorch` gets its rank."},
    },
)
_SCHEDULING = _of(
    "object",
    description="How its pods start together.",
    properties={
        "minAvailable": {**_COUNT, "description": "How many pods start together; default all."},
        "queue": _of("string", description="The job's queue, unless the label phalanx.dev/queue names one."),
        "priorityClass": _of("string", description="The priority class of the job, if its pod templates name none."),
        "minResources": _of("object", additionalProperties=_QUANTITY),
        "scheduleTimeoutSeconds": _COUNT,
    },
)
_RUN_POLICY = _of(
    "object",
    description="How the job runs, and what remains after its end.",
    properties={
        "activeDeadlineSeconds": _of("integer", format="int64", minimum=1),
        "backoffLimit": _COUNT,
        "cleanPodPolicy": _of("string", enum=["", "None", "Running", "All"], description="Default None: pods stay."),
        "managedBy": _of("string", description="The controller that runs the job, if it is not this one."),
        "schedulingPolicy": _SCHEDULING,
        "suspend": _of("boolean", description="If true, the job has no pods."),
        "ttlSecondsAfterFinished": _COUNT,
    },
)
_SPEC = _of(
    "object",
    required=["pytorchReplicaSpecs"],
    properties={
        "elasticPolicy": OPEN,
        "nprocPerNode": _of("string", description="The number of processes in each pod: auto, cpu, gpu or a number."),
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


# The operator's webhook refuses a job without a spec; in this definition, the schema refuses it.
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
