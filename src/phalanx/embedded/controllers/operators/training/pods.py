"""The pods and services of a PyTorchJob, as the Kubeflow training operator makes them: names, labels, who they are.

Pod i of a type is `JOB-TYPE-i`, and a headless service of that name stands for it alone. Rank 0 is the Master, or where
there is none the first Worker; the others find it by its name in MASTER_ADDR. RANK and WORLD_SIZE count pods, or
processes where `nprocPerNode` is a number; the PET_ variables say the same to torchrun.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import Object

OPERATOR = "pytorchjob-controller"
_GROUP = "training.kubeflow.org"
JOB, TYPE, INDEX = f"{_GROUP}/job-name", f"{_GROUP}/replica-type", f"{_GROUP}/replica-index"
_PORT_NAME, _PORT = "pytorchjob-port", 23456
MOST_REPLICAS = 10_000  # replicas of one replica type
TYPES = ("Master", "Worker")  # the replica types, in the order of their ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReplica:
    """A pod that the job wants. `rank` counts pods."""

    type: str
    index: int
    rank: int
    name: str


def replica_specs(job: Object) -> dict[str, Mapping[str, Any]]:
    """Return replica type -> its spec, in the order of ranks."""
    specs = job["spec"].get("pytorchReplicaSpecs") or {}
    return {name: specs[name] for name in TYPES if name in specs}


def count(spec: Mapping[str, Any]) -> int:
    """Return the number of replicas of a type. Raises ValueError if they are more than `MOST_REPLICAS`."""
    found = 1 if spec.get("replicas") is None else int(spec["replicas"])
    if found > MOST_REPLICAS:
        raise ValueError(f"{found} replicas, which are more than {MOST_REPLICAS}")
    return found


def restart_policy(spec: Mapping[str, Any]) -> str:
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


def owner_reference(job: Object) -> dict[str, Any]:
    meta = job["metadata"]
    named = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def port(job: Object, kind: str) -> int:
    """Return the port of rank 0: the container port with the operator's name for it, otherwise the operator's
    default."""
    pod = (replica_specs(job)[kind].get("template") or {}).get("spec") or {}
    named = (one for container in pod.get("containers") or () for one in container.get("ports") or ())
    return next((int(one["containerPort"]) for one in named if one.get("name") == _PORT_NAME), _PORT)


def _environment(job: Object, replica: TrainingReplica) -> list[dict[str, str]]:
    first = next(replicas(job))
    nodes = sum(count(spec) for spec in replica_specs(job).values())
    processes = str(job["spec"].get("nprocPerNode") or "auto")
    each = int(processes) if processes.isdigit() else 1
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


def _elastic(policy: Mapping[str, Any], host: str, listens: str, nodes: int) -> dict[str, str]:
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
