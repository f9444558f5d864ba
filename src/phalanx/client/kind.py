"""The kinds of objects that Phalanx uses, and their paths in the API."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of objects. `plural`: its name in paths. `name`: its name in objects (`kind`)."""

    plural: str
    name: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path: /api/v1/… for the core group, otherwise /apis/GROUP/VERSION/…. Without a namespace, the
        path is that of the objects in all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{space}/{self.plural}{tail}"


PODS = Kind(plural="pods", name="Pod")
NODES = Kind(plural="nodes", name="Node", namespaced=False)
NAMESPACES = Kind(plural="namespaces", name="Namespace", namespaced=False)
EVENTS = Kind(plural="events", name="Event")
CONFIG_MAPS = Kind(plural="configmaps", name="ConfigMap")
SECRETS = Kind(plural="secrets", name="Secret")
SERVICES = Kind(plural="services", name="Service")
ENDPOINTS = Kind(plural="endpoints", name="Endpoints")
ENDPOINT_SLICES = Kind(group="discovery.k8s.io", plural="endpointslices", name="EndpointSlice")
SERVICE_ACCOUNTS = Kind(plural="serviceaccounts", name="ServiceAccount")
LIMIT_RANGES = Kind(plural="limitranges", name="LimitRange")
RESOURCE_QUOTAS = Kind(plural="resourcequotas", name="ResourceQuota")
VOLUME_CLAIMS = Kind(plural="persistentvolumeclaims", name="PersistentVolumeClaim")
VOLUMES = Kind(plural="persistentvolumes", name="PersistentVolume", namespaced=False)
STORAGE_CLASSES = Kind(group="storage.k8s.io", plural="storageclasses", name="StorageClass", namespaced=False)
CSI_NODES = Kind(group="storage.k8s.io", plural="csinodes", name="CSINode", namespaced=False)
JOBS = Kind(group="batch", plural="jobs", name="Job")
REPLICA_SETS = Kind(group="apps", plural="replicasets", name="ReplicaSet")
REPLICATION_CONTROLLERS = Kind(plural="replicationcontrollers", name="ReplicationController")
DEPLOYMENTS = Kind(group="apps", plural="deployments", name="Deployment")
STATEFUL_SETS = Kind(group="apps", plural="statefulsets", name="StatefulSet")
CRON_JOBS = Kind(group="batch", plural="cronjobs", name="CronJob")
JOB_SETS = Kind(group="jobset.x-k8s.io", version="v1alpha2", plural="jobsets", name="JobSet")
MPI_JOBS = Kind(group="kubeflow.org", version="v2beta1", plural="mpijobs", name="MPIJob")
TRAIN_JOBS = Kind(group="trainer.kubeflow.org", version="v1alpha1", plural="trainjobs", name="TrainJob")
LEASES = Kind(group="coordination.k8s.io", plural="leases", name="Lease")
PRIORITY_CLASSES = Kind(group="scheduling.k8s.io", plural="priorityclasses", name="PriorityClass", namespaced=False)
WORKLOADS = Kind(group="scheduling.k8s.io", version="v1alpha2", plural="workloads", name="Workload")
POD_GROUPS = Kind(group="scheduling.k8s.io", version="v1alpha2", plural="podgroups", name="PodGroup")
RUNTIME_CLASSES = Kind(group="node.k8s.io", plural="runtimeclasses", name="RuntimeClass", namespaced=False)
DISRUPTION_BUDGETS = Kind(group="policy", plural="poddisruptionbudgets", name="PodDisruptionBudget")
CRDS = Kind(
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    name="CustomResourceDefinition",
    namespaced=False,
)
