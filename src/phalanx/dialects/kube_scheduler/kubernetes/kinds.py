"""The kinds of scheduling.k8s.io for pods that start together.

Each Kubernetes release serves another version: 1.35 serves Workload in v1alpha1, 1.36 Workload and PodGroup in
v1alpha2, 1.37 both in v1beta1. In 1.35 a pod names its Workload and the group in it (`spec.workloadRef`); since 1.36 it
names a PodGroup (`spec.schedulingGroup`), and a Workload is a template that no scheduler reads.

Source: k8s.io/api v0.35.7, v0.36.3 and v0.37.0-beta.0.
"""

from __future__ import annotations

from phalanx.client.kind import Kind

NAME = "kubernetes"
GROUP = "scheduling.k8s.io"

WORKLOADS_1_35 = Kind(group=GROUP, version="v1alpha1", plural="workloads", name="Workload")
POD_GROUPS_1_36 = Kind(group=GROUP, version="v1alpha2", plural="podgroups", name="PodGroup")
POD_GROUPS_1_37 = Kind(group=GROUP, version="v1beta1", plural="podgroups", name="PodGroup")
POD_GROUPS = (POD_GROUPS_1_37, POD_GROUPS_1_36)

# The type of the condition that a PodGroup gets when its minimum has started for the first time; 1.37 renames it.
SCHEDULED = {POD_GROUPS_1_36: "PodGroupScheduled", POD_GROUPS_1_37: "PodGroupInitiallyScheduled"}
