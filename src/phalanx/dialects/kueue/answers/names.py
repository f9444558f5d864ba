"""Form the name of a gang's Workload as Kueue does, and find the gang of a Workload.

The name of a job's Workload is formed from the job's kind, name and uid. The Workload of a pod group has the name of
the group. The pods of a StatefulSet form a pod group, and so do the pods of each group of a LeaderWorkerSet. The
Workload of such a pod group is named after the set. An annotation on this Workload names the gang, because the gang
cannot be derived from the Workload's name. A job may also name a Workload that exists already
(`prebuilt-workload-name`).


Sources: pkg/controller/jobframework/workload_names.go and the kinds below pkg/controller/jobs of v0.19.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from phalanx.dialects.frame.dialect import GangView, Object, Said
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions

IS_GROUP = f"{kinds.PREFIX}is-group-workload"
_LONGEST_PREFIX = 252 - 5  # names have at most 253 characters, and end with a hyphen and five characters of a hash
_GROUP = "phalanx.dev/job"


class ServingSet(NamedTuple):
    """A StatefulSet or a LeaderWorkerSet that creates the pods of a pod group. `group_index`: the index of the group in
    the set; empty if the set has only one group."""

    kind: str
    group_version: str
    name: str
    uid: str
    group_index: str = ""

    @property
    def workload(self) -> str:
        group, _, _ = self.group_version.rpartition("/")
        name = f"{self.name}-{self.group_index}" if self.group_index else self.name
        return workload_name(self.kind, group, name, self.uid)

    @property
    def annotations(self) -> dict[str, str]:
        said = {"job-owner-gvk": f"{self.group_version}, Kind={self.kind}", "job-owner-name": self.name}
        if self.group_index:
            said["component-workload-index"] = self.group_index
        return {f"{kinds.PREFIX}{key}": text for key, text in said.items()}


def workload_name(kind: str, group: str, name: str, uid: str) -> str:
    """Return the name of a job's Workload."""
    digest = hashlib.sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.lower()}-{name}'[:_LONGEST_PREFIX]}-{digest[:5]}"


def serving_set(defined: KueueDefinitions, namespace: str, options: Mapping[str, str]) -> ServingSet | None:
    """Return the set that created a group of bare pods. Return None if no set created them, or if the set is not known
    yet."""
    if uid := options.get(gangs.STATEFUL_SET_UID):
        return ServingSet("StatefulSet", "apps/v1", options[gangs.SET_NAME], uid)
    if not (name := options.get(gangs.SET_NAME)):
        return None
    uid = defined.worker_sets.get(f"{namespace}/{name}", "")
    kind = kinds.LEADER_WORKER_SETS
    return ServingSet(kind.name, kind.api_version, name, uid, options[gangs.SET_INDEX]) if uid else None


def is_nameless(defined: KueueDefinitions, told: GangView) -> bool:
    """Return whether a set created the gang's pods but is not known yet. As long as it is unknown, the Workload has no
    name."""
    return gangs.SET_NAME in told.options and serving_set(defined, told.namespace, told.options) is None


def key_of_gang(defined: KueueDefinitions, said: Said) -> str:
    """Return `namespace/name` of a gang's Workload; empty if the Workload's name is unknown."""
    if prebuilt := said.options.get(gangs.PREBUILT):
        return f"{said.namespace}/{prebuilt}"
    if (found := serving_set(defined, said.namespace, said.options)) is not None:
        return f"{said.namespace}/{found.workload}"
    if said.owner is None:
        return ""
    if said.owner.kind == "Pod" and _GROUP in said.options:
        return said.gang
    owner = said.owner
    return f"{said.namespace}/{workload_name(owner.kind, owner.group, owner.name, owner.uid)}"


def key_of(defined: KueueDefinitions, told: GangView) -> str:
    """Return `namespace/name` of the Workload of a gang."""
    if prebuilt := told.options.get(gangs.PREBUILT):
        return f"{told.namespace}/{prebuilt}"
    if (found := serving_set(defined, told.namespace, told.options)) is not None:
        return f"{told.namespace}/{found.workload}"
    owner = told.owners[0]
    if told.kind == "PodGroup":
        return f"{told.namespace}/{told.id.partition('/')[2]}"
    group, _, _ = str(owner["apiVersion"]).rpartition("/")
    meta = owner["metadata"]
    return f"{told.namespace}/{workload_name(owner['kind'], group, meta['name'], meta['uid'])}"


def gang_of(workload: Mapping[str, Any]) -> str:
    """Return the id of the gang to which a Workload belongs; empty if the Workload has no owner."""
    meta: Object = workload["metadata"]
    owners, said = meta.get("ownerReferences") or (), meta.get("annotations") or {}
    if not owners or said.get(IS_GROUP):
        return f"{meta['namespace']}/{said.get(_GROUP) or meta['name']}" if owners else ""
    prefix = "pod:" if owners[0]["kind"] == "Pod" else ""
    return f"{meta['namespace']}/{prefix}{owners[0]['name']}"
