"""Volcano's kinds, and the labels and annotations that its Job controller writes.

Source: staging/src/volcano.sh/apis/pkg/apis/{batch,bus,flow,scheduling} of Volcano v1.15.1.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind

COMPONENT: Final = "vc-controller-manager"
ELSEWHERE: Final = "kueue.x-k8s.io/multikueue"  # the value of schedulerName in Jobs that another cluster runs
JOBS: Final = Kind(group="batch.volcano.sh", version="v1alpha1", plural="jobs", name="Job")
CRON_JOBS: Final = Kind(group="batch.volcano.sh", version="v1alpha1", plural="cronjobs", name="CronJob")
COMMANDS: Final = Kind(group="bus.volcano.sh", version="v1alpha1", plural="commands", name="Command")
JOB_FLOWS: Final = Kind(group="flow.volcano.sh", version="v1alpha1", plural="jobflows", name="JobFlow")
JOB_TEMPLATES: Final = Kind(group="flow.volcano.sh", version="v1alpha1", plural="jobtemplates", name="JobTemplate")
POD_GROUPS: Final = Kind(group="scheduling.volcano.sh", version="v1beta1", plural="podgroups", name="PodGroup")
QUEUES: Final = Kind(group="scheduling.volcano.sh", version="v1beta1", plural="queues", name="Queue", namespaced=False)
NETWORK_POLICIES: Final = Kind(group="networking.k8s.io", plural="networkpolicies", name="NetworkPolicy")

PREFIX: Final = "volcano.sh/"
TASK_INDEX: Final = f"{PREFIX}task-index"
TASK_SPEC: Final = f"{PREFIX}task-spec"
JOB_NAME: Final = f"{PREFIX}job-name"
JOB_NAMESPACE: Final = f"{PREFIX}job-namespace"
QUEUE_NAME: Final = f"{PREFIX}queue-name"
JOB_VERSION: Final = f"{PREFIX}job-version"
JOB_RETRY_COUNT: Final = f"{PREFIX}job-retry-count"
TEMPLATE_UID: Final = f"{PREFIX}template-uid"
PARTITION_ID: Final = f"{PREFIX}partition-id"
NUMA_POLICY: Final = f"{PREFIX}numa-topology-policy"
OUT_OF_SYNC: Final = f"{PREFIX}controller-out-of-sync"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
CREATED_BY_TEMPLATE: Final = f"{PREFIX}createdByJobTemplate"
CREATED_BY_FLOW: Final = f"{PREFIX}createdByJobFlow"
CRON_SCHEDULED_AT: Final = f"{PREFIX}cronjob-scheduled-timestamp"
