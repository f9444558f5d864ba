"""The built-in kinds of this server, as discovery lists them.

The server has the kinds that jobs, pods and nodes need. Most other kinds are missing, because no component would act on
them. The server stores a few of these kinds all the same, because clients list or write them: DaemonSets,
HorizontalPodAutoscalers, NetworkPolicies, and the kinds that drivers of volumes and devices publish. (The Cluster
Autoscaler lists these before its first loop.) When a client creates an object of such a kind, the response has a
warning that nothing acts on the object. Names, short names, categories and verbs are those of kube-apiserver 1.36.
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin_kinds.api import API
from phalanx.embedded.apiserver.registry.builtin_kinds.cluster import CLUSTER
from phalanx.embedded.apiserver.registry.builtin_kinds.core import CORE
from phalanx.embedded.apiserver.registry.builtin_kinds.drivers import DRIVERS
from phalanx.embedded.apiserver.registry.builtin_kinds.workloads import JOBS, WORKLOADS
from phalanx.embedded.apiserver.registry.kinds.batch.job import JobStrategy

RESOURCES: tuple[Resource, ...] = (*CORE, *WORKLOADS, *CLUSTER, *DRIVERS, *API)


def emulating(version: str) -> tuple[Resource, ...]:
    """Return the built-in kinds, with the rules for Jobs of the Kubernetes release `version`. `version`: one of the
    `EMULATED_VERSIONS` of Jobs."""
    jobs = replace(JOBS, strategy=JobStrategy(version))
    return tuple(jobs if one is JOBS else one for one in RESOURCES)
