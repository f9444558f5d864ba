"""Make the Jobs of a JobSet, and the headless Service of its pods.

Names and labels are the same as those that the operator writes (a Job is called `<jobset>-<replicated job>-<index>`),
so that selectors and references work. Source: JobSet v0.12, pkg/controllers/jobset_controller.go and
api/jobset/v1alpha2.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import Object

PREFIX = "jobset.sigs.k8s.io/"
NAME, REPLICATED_JOB, JOB_INDEX = f"{PREFIX}jobset-name", f"{PREFIX}replicatedjob-name", f"{PREFIX}job-index"
ATTEMPT = f"{PREFIX}restart-attempt"
COMPONENT = "jobset-controller"
OPERATOR = "jobset.sigs.k8s.io/jobset-controller"  # the value of managedBy
# The fields of the pod template that may change while the Job is suspended.
MUTABLE = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
MUTABLE_LISTS = (("spec", "tolerations"), ("spec", "schedulingGates"))
MOST_JOBS = 10_000  # the maximum number of Jobs of one JobSet


@dataclass(frozen=True, slots=True)
class Replica:
    """A Job of a JobSet: a replica of a replicated job. `place`: its index among all Jobs of the JobSet."""

    part: Object
    index: int
    place: int
    name: str


def replicated_jobs(job_set: Object) -> list[Object]:
    """Return the replicated jobs of a JobSet, in their order."""
    return list(job_set["spec"].get("replicatedJobs") or ())


def replicas(job_set: Object) -> Iterator[Replica]:
    """Yield a `Replica` for every Job that the JobSet should have, in order. Raises ValueError if there are more than
    `MOST_JOBS`."""
    if (jobs := sum(map(count, replicated_jobs(job_set)))) > MOST_JOBS:
        raise ValueError(
            f"its replicas are {jobs} Jobs in all, but at most {MOST_JOBS} are allowed: create several JobSets"
        )
    place = 0
    for part in replicated_jobs(job_set):
        for index in range(count(part)):
            yield Replica(part, index, place, f"{job_set['metadata']['name']}-{part['name']}-{index}")
            place += 1


def count(part: Object) -> int:
    """Return the number of Jobs that a replicated job should have."""
    found = part.get("replicas")
    return 1 if found is None else int(found)


def restarts(job_set: Object) -> int:
    """Return the number of restarts of the whole JobSet."""
    return int((job_set.get("status") or {}).get("restarts") or 0)


def make_job(job_set: Object, replica: Replica, *, suspended: bool) -> Object:
    """Return the Job of a replica."""
    template = copy.deepcopy(replica.part["template"])
    meta, spec = template.get("metadata") or {}, template.setdefault("spec", {})
    words = _words(job_set, replica)
    spec.setdefault("completionMode", "Indexed")
    spec["suspend"] = suspended
    # the server refuses a Job with an empty template, because it has no containers
    pod = spec.setdefault("template", {})
    pod.setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    inner = pod.setdefault("metadata", {})
    inner["labels"] = {**(inner.get("labels") or {}), **words}
    inner["annotations"] = {**(inner.get("annotations") or {}), **words}
    network = job_set["spec"].get("network") or {}
    if network.get("enableDNSHostnames", True):
        pod["spec"].setdefault("subdomain", subdomain(job_set))
    metadata = {
        "name": replica.name,
        "labels": {**(meta.get("labels") or {}), **words},
        "annotations": {**(meta.get("annotations") or {}), **words},
        "ownerReferences": [owner(job_set)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def make_service(job_set: Object) -> Object | None:
    """Return the headless Service for the names of the pods; None if the JobSet disables it."""
    network = job_set["spec"].get("network") or {}
    if not network.get("enableDNSHostnames", True):
        return None
    spec = {
        "clusterIP": "None",
        "selector": {NAME: job_set["metadata"]["name"]},
        "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
    }
    meta = {"name": subdomain(job_set), "ownerReferences": [owner(job_set)]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def subdomain(job_set: Object) -> str:
    return str((job_set["spec"].get("network") or {}).get("subdomain") or job_set["metadata"]["name"])


def owner(obj: Object) -> dict[str, Any]:
    """Return the owner reference for the objects that `obj` controls."""
    meta = obj["metadata"]
    named = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def template_patch(job_set: Object, replica: Replica, job: Object) -> Object:
    """Return a merge patch that updates the pod template of a Job before the Job is resumed. As in the operator, maps
    are merged, and lists of the Job are replaced by lists of the JobSet."""
    wanted, now = make_job(job_set, replica, suspended=False)["spec"]["template"], job["spec"]["template"]
    found: Object = {}
    for outer, name in MUTABLE:
        more, there = (wanted.get(outer) or {}).get(name) or {}, (now.get(outer) or {}).get(name) or {}
        change = {key: text for key, text in more.items() if there.get(key) != text}
        if change:
            found.setdefault(outer, {})[name] = change
    for outer, name in MUTABLE_LISTS:
        entries, there = (wanted.get(outer) or {}).get(name), (now.get(outer) or {}).get(name)
        if (entries or []) != (there or []):
            found.setdefault(outer, {})[name] = entries or None
    return found


def _words(job_set: Object, replica: Replica) -> dict[str, str]:
    """Return the labels of a Job and its pods. The Job and its pods also have these values as annotations."""
    meta, part = job_set["metadata"], replica.part
    key = f"{meta['namespace']}/{replica.name}".encode()
    words: Mapping[str, str] = {
        "jobset-name": meta["name"],
        "jobset-uid": meta["uid"],
        "replicatedjob-name": part["name"],
        "replicatedjob-replicas": str(count(part)),
        "global-replicas": str(sum(count(one) for one in replicated_jobs(job_set))),
        "job-index": str(replica.index),
        "job-global-index": str(replica.place),
        "job-key": hashlib.sha1(key, usedforsecurity=False).hexdigest(),
        "restart-attempt": str(restarts(job_set)),
        **_group(job_set, replica),
        **_coordinator(job_set),
    }
    return {f"{PREFIX}{name}": text for name, text in words.items()}


def _group(job_set: Object, replica: Replica) -> dict[str, str]:
    name = replica.part.get("groupName") or "default"
    parts = [one for one in replicated_jobs(job_set) if (one.get("groupName") or "default") == name]
    before = sum(count(one) for one in parts[: parts.index(replica.part)])
    return {
        "group-name": name,
        "group-replicas": str(sum(count(one) for one in parts)),
        "job-group-index": str(before + replica.index),
    }


def _coordinator(job_set: Object) -> dict[str, str]:
    """Return the host name of the JobSet's coordinator pod, under the key `coordinator`; an empty mapping if there is
    no coordinator."""
    said = job_set["spec"].get("coordinator")
    if not said:
        return {}
    name = f"{job_set['metadata']['name']}-{said['replicatedJob']}-{said.get('jobIndex') or 0}"
    return {"coordinator": f"{name}-{said.get('podIndex') or 0}.{subdomain(job_set)}"}
