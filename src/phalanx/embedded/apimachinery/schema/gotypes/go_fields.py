"""Facts about the fields of the Kubernetes API's Go structs that the published OpenAPI definitions do not contain.

Kube-apiserver decodes every request into a Go struct and encodes that struct again. So its response depends on three
properties of each struct field that the definitions leave out. The first is whether the field is a pointer: if so, a
`0`, `false` or `""` that a client sent is kept; otherwise `omitempty` removes it. The second is whether the field is a
struct by value: such a field is printed as `{}`, or as `null` for a time, even if no client has set it. The third is
whether the field has `omitempty`.

Source of the facts: the struct tags in k8s.io/api (core/v1, batch/v1, apps/v1, ...) of Kubernetes 1.36.
"""

from __future__ import annotations

# API groups for which the tables below list all pointers. In the kinds of these groups, zero values of fields that are
# not listed are dropped.
_GROUPS = (
    *("apps", "batch", "coordination", "core", "discovery", "events", "networking", "node", "policy", "rbac"),
    *("resource", "scheduling", "storage"),
)
KNOWN = (*(f"io.k8s.api.{group}." for group in _GROUPS), "io.k8s.apimachinery.pkg.apis.meta.v1.")


def _table(text: str) -> dict[str, frozenset[str]]:
    """Return {"Kind": {field, field}} from lines `Kind: field field`. The kind is the last part of a definition's
    name."""
    rows = (line.split(":", 1) for line in text.strip().splitlines())
    return {kind.strip(): frozenset(fields.split()) for kind, fields in rows}


# Scalar fields that are pointers, so that a zero value is kept if a client sends it.
POINTERS = _table(
    """
    AllocatedDeviceStatus: shareID
    AppArmorProfile: localhostProfile
    AzureDiskVolumeSource: cachingMode fsType kind readOnly
    AzureFilePersistentVolumeSource: secretNamespace
    CSIDriverSpec: attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount \
preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets storageCapacity
    CSIVolumeSource: fsType readOnly
    ClientIPConfig: timeoutSeconds
    ClusterTrustBundleProjection: name optional signerName
    ConfigMap: immutable
    ConfigMapEnvSource: optional
    ConfigMapKeySelector: optional
    ConfigMapProjection: optional
    ConfigMapVolumeSource: defaultMode optional
    Container: restartPolicy
    ContainerStatus: started stopSignal
    CronJobSpec: failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone
    DaemonSetSpec: revisionHistoryLimit
    DaemonSetStatus: collisionCount
    DeleteOptions: gracePeriodSeconds orphanDependents propagationPolicy
    DeploymentSpec: progressDeadlineSeconds replicas revisionHistoryLimit
    DeploymentStatus: collisionCount terminatingReplicas
    Device: allNodes allowMultipleAllocations bindsToNode nodeName
    DeviceAttribute: bool int string version
    DeviceClassSpec: extendedResourceName
    DeviceConstraint: distinctAttribute matchAttribute
    DeviceRequestAllocationResult: adminAccess shareID
    DeviceToleration: tolerationSeconds
    DownwardAPIVolumeFile: mode
    DownwardAPIVolumeSource: defaultMode
    Endpoint: hostname nodeName zone
    EndpointAddress: nodeName
    EndpointConditions: ready serving terminating
    EndpointPort: appProtocol port
    EphemeralContainer: restartPolicy
    ExactDeviceRequest: adminAccess
    FCVolumeSource: lun
    FileKeySelector: optional
    GRPCAction: service
    GlusterfsPersistentVolumeSource: endpointsNamespace
    HostPathVolumeSource: type
    HTTPIngressPath: pathType
    IngressSpec: ingressClassName
    ISCSIPersistentVolumeSource: initiatorName
    ISCSIVolumeSource: initiatorName
    JobSpec: activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy \
manualSelector maxFailedIndexes parallelism podReplacementPolicy suspend ttlSecondsAfterFinished
    JobStatus: failedIndexes ready terminating
    KeyToPath: mode
    LeaseSpec: holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy
    Lifecycle: stopSignal
    LoadBalancerIngress: ipMode
    LocalVolumeSource: fsType
    NetworkPolicyPort: endPort protocol
    NodeAllocatableResourceMapping: capacityKey
    NodeFeatures: supplementalGroupsPolicy
    NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts userNamespaces
    NodeSwapStatus: capacity
    ObjectMeta: deletionGracePeriodSeconds
    OwnerReference: blockOwnerDeletion controller
    PersistentVolumeClaimSpec: storageClassName volumeAttributesClassName volumeMode
    PersistentVolumeClaimStatus: currentVolumeAttributesClassName
    PersistentVolumeSpec: volumeAttributesClassName volumeMode
    PodCertificateProjection: maxExpirationSeconds
    PodDNSConfigOption: value
    PodDisruptionBudgetSpec: unhealthyPodEvictionPolicy
    PodFailurePolicyOnExitCodesRequirement: containerName
    PodResourceClaim: resourceClaimName resourceClaimTemplateName
    PodResourceClaimStatus: resourceClaimName
    PodGroupResourceClaim: resourceClaimName resourceClaimTemplateName
    PodGroupSpec: disruptionMode priority
    PodGroupTemplate: disruptionMode priority
    PodSchedulingGroup: podGroupName
    PodSecurityContext: fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy \
supplementalGroupsPolicy
    PodSpec: activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers hostnameOverride \
preemptionPolicy priority runtimeClassName setHostnameAsFQDN shareProcessNamespace terminationGracePeriodSeconds
    PortStatus: error
    Preconditions: resourceVersion uid
    PriorityClass: preemptionPolicy
    Probe: terminationGracePeriodSeconds
    ProjectedVolumeSource: defaultMode
    ReplicaSetSpec: replicas
    ReplicaSetStatus: terminatingReplicas
    ReplicationControllerSpec: replicas
    ResourceSliceSpec: allNodes nodeName perDeviceNodeSelection
    RollingUpdateStatefulSetStrategy: partition
    SeccompProfile: localhostProfile
    Secret: immutable
    SecretEnvSource: optional
    SecretKeySelector: optional
    SecretProjection: optional
    SecretVolumeSource: defaultMode optional
    SecurityContext: allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot \
runAsUser
    ServiceAccount: automountServiceAccountToken
    ServiceAccountTokenProjection: expirationSeconds
    ServicePort: appProtocol
    ServiceSpec: allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass \
trafficDistribution
    StatefulSetSpec: replicas revisionHistoryLimit
    StatefulSetStatus: collisionCount
    StorageClass: allowVolumeExpansion reclaimPolicy volumeBindingMode
    SuccessPolicyRule: succeededCount succeededIndexes
    TokenRequest: expirationSeconds
    Toleration: tolerationSeconds
    TopologySpreadConstraint: minDomains nodeAffinityPolicy nodeTaintsPolicy
    TypedLocalObjectReference: apiGroup
    TypedObjectReference: apiGroup namespace
    VolumeAttachmentSource: persistentVolumeName
    VolumeError: errorCode
    VolumeMount: mountPropagation recursiveReadOnly
    VolumeMountStatus: recursiveReadOnly
    VolumeNodeResources: count
    WindowsSecurityContextOptions: gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName
    """
)

# Optional fields that are structs by value. They are printed as `{}` (or with those of their fields that are always
# printed) even if no client has set them. `metadata`, `spec` and `status` of a kind are such fields, too
# (`ALWAYS_STRUCT`).
BY_VALUE = _table(
    """
    AllocationResult: devices
    Container: resources
    ContainerStatus: lastState state
    DaemonSetSpec: updateStrategy
    DeploymentSpec: strategy
    Endpoint: conditions
    EphemeralContainer: resources
    Event: source regarding deprecatedSource
    JobTemplateSpec: metadata spec
    NetworkPolicySpec: podSelector
    NodeDaemonEndpoints: kubeletEndpoint
    NodeStatus: daemonEndpoints nodeInfo
    PersistentVolumeClaimSpec: resources
    PersistentVolumeClaimTemplate: metadata
    PodTemplate: template
    PodTemplateSpec: metadata spec
    ReplicaSetSpec: template
    ResourceClaimSpec: devices
    ResourceFieldSelector: divisor
    ServiceStatus: loadBalancer
    ServicePort: targetPort
    StatefulSetSpec: updateStrategy
    """
)
ALWAYS_STRUCT = frozenset({"metadata", "spec", "status"})

# Optional times that are not pointers, which are printed as `null` if they are not set. (`creationTimestamp` has
# omitzero since 1.35 and is not printed.)
NULL_TIMES = _table(
    """
    ContainerStateRunning: startedAt
    ContainerStateTerminated: finishedAt startedAt
    DaemonSetCondition: lastTransitionTime
    DeploymentCondition: lastTransitionTime lastUpdateTime
    Event: eventTime firstTimestamp lastTimestamp deprecatedFirstTimestamp deprecatedLastTimestamp
    EventSeries: lastObservedTime
    JobCondition: lastProbeTime lastTransitionTime
    NamespaceCondition: lastTransitionTime
    NodeCondition: lastHeartbeatTime lastTransitionTime
    PersistentVolumeClaimCondition: lastProbeTime lastTransitionTime
    PodCondition: lastProbeTime lastTransitionTime
    ReplicaSetCondition: lastTransitionTime
    ReplicationControllerCondition: lastTransitionTime
    StatefulSetCondition: lastTransitionTime
    VolumeError: time
    """
)

# Optional pointers and lists without `omitempty`, which are also printed as `null`.
NULLS = _table(
    """
    AllocatedDeviceStatus: conditions
    CSINodeDriver: topologyKeys
    DeviceClaim: requests
    EndpointSlice: endpoints ports
    PodGroupSpec: podGroupTemplateRef
    PodGroupTemplate: schedulingConstraints
    PodGroupTemplateReference: workload
    """
)

# Fields that are optional in the definitions but have no `omitempty`. They are printed as their zero value.
NO_OMITEMPTY = _table(
    """
    ClusterRole: rules
    Event: reportingComponent reportingInstance
    PodDisruptionBudgetStatus: currentHealthy desiredHealthy disruptionsAllowed expectedPods
    PriorityClass: value
    Role: rules
    ScaleStatus: replicas
    StatefulSetOrdinals: start
    StatefulSetSpec: serviceName
    StatefulSetStatus: availableReplicas
    """
)

# Fields that the definitions call required although they are pointers to structs (or have `omitempty`). They are never
# filled in.
NOT_FILLED = _table(
    """
    DaemonSetSpec: selector
    DeploymentSpec: selector
    HTTPIngressPath: pathType
    ReplicaSetSpec: selector
    StatefulSetSpec: selector
    """
)
