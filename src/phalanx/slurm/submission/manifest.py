"""Build the API objects of a job from its request: the Job and its Secret.

A job is one Job with one pod for each node; all pods start together. The script runs in the first pod. The other pods
only keep their part of the allocation until the script ends (successPolicy). The script and the environment are in a
Secret, because environments often contain tokens, and because lists of Jobs would be large otherwise. The Secret is
created first. The Job then becomes the owner of the Secret, so the Secret is deleted with the Job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from phalanx.slurm.cluster.api import Object
from phalanx.slurm.cluster.site import FEATURE, Site
from phalanx.slurm.jobs.ask import ARRAY, ASK, COMPONENT, NUMBER, POD_NAME, SECRET, TOOLS, Ask
from phalanx.slurm.jobs.names import name_of, secret_of
from phalanx.slurm.jobs.nodes import GPU_PRODUCT
from phalanx.slurm.submission.asked.size import choices

_HOSTNAME = "kubernetes.io/hostname"
_NODE_NAME = {"fieldRef": {"fieldPath": "spec.nodeName"}}
_OWN_NAME = {"fieldRef": {"fieldPath": "metadata.name"}}
_POD_IP = {"fieldRef": {"fieldPath": "status.podIP"}}
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
ROOT, _DEFAULT = "root", "default"  # the account of root, which has no queue; the queue for jobs of this account
HOST = "host"  # the image name for pods that are processes in the node's own file system


def secret(number: int, ask: Ask, environment: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_of(number, ask), "labels": {NUMBER: str(number)}},
        "stringData": dict(environment),
    }


@cache
def launcher() -> str:
    """Return the shell program that runs in the pod and starts the script. It is the same for all jobs."""
    text = Path(__file__).with_name("launcher.sh").read_text()
    return "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"


def job(
    number: int,
    ask: Ask,
    site: Site,
    words: Mapping[str, str],
    args: list[str],
    image: str = "host",
    own: Mapping[str, str] | None = None,
    account: str = "",
) -> Object:
    """Return the Job object. `words`: the annotations that the scheduler reads. `args`: the arguments of the script.
    `own`: the environment variables whose values differ from those in the Secret that all tasks of an array share.
    `account`: the service account of the job's pods; "" for none."""
    labels = {"phalanx.dev/queue": _DEFAULT if ask.account == ROOT else ask.account, NUMBER: str(number)}
    if _LABEL.fullmatch(ask.user):
        labels["phalanx.dev/group"] = ask.user  # the scheduler applies limits and reservations of this group
    if ask.array is not None:
        labels[ARRAY] = str(ask.array)
    text = msgspec.json.encode(ask).decode()
    annotations = {**words, SECRET: secret_of(number, ask)}
    # The components form one gang; its entry in the ledger has the job number of the first component.
    if ask.het is not None:
        labels |= {
            ARRAY: str(ask.het),
            "phalanx.dev/job": f"slurm-{ask.het}",
            "phalanx.dev/job-roles": str(ask.het_size),
        }
    annotations |= {f"{COMPONENT}{ask.het_offset}": text} if ask.het_offset else {NUMBER: str(number), ASK: text}
    spec: Object = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": ask.node_count,
        "parallelism": ask.node_count,
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": site.keep_s,
        "template": {
            "metadata": {"labels": {NUMBER: str(number)}},
            "spec": _pod(number, ask, site, args, image, own or {}, account),
        },
    }
    if ask.node_count > 1:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    meta = {"name": name_of(number, ask), "labels": labels, "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _pod(
    number: int, ask: Ask, site: Site, args: list[str], image: str, own: Mapping[str, str], account: str
) -> Object:
    container: Object = {
        "name": "batch",
        "image": image,
        # Environment variables from a Secret are not changed. In arguments, Kubernetes would replace $(NAME).
        "command": ["/bin/sh", "-c", 'eval "$PHALANX_LAUNCHER"', "slurm_script"],
        "args": [arg.replace("$", "$$") for arg in args],
        "envFrom": [{"secretRef": {"name": secret_of(number, ask)}}],
        "env": [
            {"name": "SLURMD_NODENAME", "valueFrom": _NODE_NAME},
            {"name": "PHALANX_POD_IP", "valueFrom": _POD_IP},
            *({"name": name, "value": text.replace("$", "$$")} for name, text in own.items()),
        ],
        "resources": _resources(ask),
    }
    pod: Object = {
        "restartPolicy": "Never",
        "schedulerName": "phalanx",
        "terminationGracePeriodSeconds": site.kill_wait_s,
        "containers": [container],
    }
    if account:
        pod["serviceAccountName"] = account
        container["env"].append({"name": POD_NAME, "valueFrom": _OWN_NAME})
    # The pod runs as the submitter; a node agent without root rights can only run pods of its own user.
    if image == HOST:
        pod["securityContext"] = {"runAsUser": ask.uid, "runAsGroup": ask.gid}
    if image != HOST and site.tools:
        bring_tools(pod, site.tools)
    if ask.mounts:
        _mount(pod, ask.mounts)
    affinity: Object = {}
    if ask.preferred:
        wishes = [{"matchExpressions": _features(choice)} for choice in choices(ask.preferred)]
        soft = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": one} for one in wishes]
        }
        affinity["nodeAffinity"] = soft
    if terms := _terms(ask, site):
        hard = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        affinity["nodeAffinity"] = {**affinity.get("nodeAffinity", {}), **hard}
    if ask.node_count > 1:
        alike = {"labelSelector": {"matchLabels": {NUMBER: str(number)}}, "topologyKey": _HOSTNAME}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [alike]}
    return {**pod, "affinity": affinity} if affinity else pod


def cpus_per_node(ask: Ask) -> int:
    """Return the number of CPUs that each pod requests. All pods of a Job are equal, so every pod requests the number
    that the node with the most tasks needs."""
    return max(ask.cpus_of_nodes)


def _resources(ask: Ask) -> Object:
    cpus = cpus_per_node(ask)
    asked = {"cpu": str(cpus)}
    if ask.memory_mib:
        asked["memory"] = f"{ask.memory_mib * (cpus if ask.per_cpu else 1)}Mi"
    limits = {"memory": asked["memory"]} if "memory" in asked else {}
    if ask.tmp_mib:
        asked["ephemeral-storage"] = f"{ask.tmp_mib}Mi"
    if ask.gpus_per_node:
        limits["nvidia.com/gpu"] = str(ask.gpus_per_node)
    return {"requests": {**asked, **limits}, **({"limits": limits} if limits else {})}


def _terms(ask: Ask, site: Site) -> list[Object]:
    """Return the node selector terms for the nodes of the partition, for --nodelist and --exclude, for the features
    (`a&b|c`), and for the type of the GPUs. A job with several partitions may run on the nodes of all of them."""
    named = [site.partition(name) for name in ask.usable or [ask.partition]]
    nodes = [node for one in named if one is not None for node in one.nodes]
    if any(one is None or not one.nodes for one in named):
        nodes = []
    wanted = list(ask.wanted) or list(dict.fromkeys(nodes))
    rules: list[Object] = []
    if wanted:
        rules.append({"key": _HOSTNAME, "operator": "In", "values": wanted})
    if ask.excluded:
        rules.append({"key": _HOSTNAME, "operator": "NotIn", "values": list(ask.excluded)})
    if ask.gpu_products:
        rules.append({"key": GPU_PRODUCT, "operator": "In", "values": list(ask.gpu_products)})
    if not ask.features:
        return [{"matchExpressions": rules}] if rules else []
    return [{"matchExpressions": [*rules, *_features(choice)]} for choice in choices(ask.features)]


def _features(names: list[str]) -> list[Object]:
    return [{"key": FEATURE + one, "operator": "Exists"} for one in names]


def _mount(pod: Object, mounts: list[str]) -> None:
    """Mount directories of the node into the container. Each mount has a form such as `/data:/mnt:ro`."""
    for at, text in enumerate(mounts):
        source, target, *flags = text.split(":")
        mounted = {"name": f"mount-{at}", "mountPath": target, "readOnly": "ro" in flags}
        _add_volume(pod, {"name": f"mount-{at}", "hostPath": {"path": source}}, mounted)


def bring_tools(pod: Object, image: str) -> None:
    """Add an init container with the image of Phalanx to the pod. It copies srun, the step daemon and a Python
    interpreter into a volume that the job's container mounts. So the image of the job needs only /bin/sh and sed."""
    mounted = {"name": "phalanx-tools", "mountPath": TOOLS}
    # The init container requests less than the job's container, so it does not increase the request of the pod.
    amounts = {"cpu": "100m", "memory": "128Mi"}
    pod["initContainers"] = [
        {
            "name": "tools",
            "image": image,
            "command": ["phalanx", "slurm", "bundle", TOOLS],
            "volumeMounts": [mounted],
            "resources": {"requests": amounts},
        }
    ]
    _add_volume(pod, {"name": "phalanx-tools", "emptyDir": {"sizeLimit": "1Gi"}}, {**mounted, "readOnly": True})


def _add_volume(pod: Object, volume: Object, mounted: Object) -> None:
    pod.setdefault("volumes", []).append(volume)
    pod["containers"][0].setdefault("volumeMounts", []).append(mounted)


def default_image() -> str:
    return os.environ.get("PHALANX_SLURM_IMAGE", "host")
