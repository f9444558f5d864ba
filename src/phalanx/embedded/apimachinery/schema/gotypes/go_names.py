"""Names of the Kubernetes API's Go types for the messages of decoding errors. The published definitions do not contain
these names.

- The name of a field's scalar type. For example, a number for `restartPolicy` "cannot be unmarshalled … of type
  v1.RestartPolicy".
- The name of an embedded struct. It is a part of the paths of the struct's fields (`volumes.VolumeSource.configMap`).

Source of the facts: the types and struct tags in k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping


def _fields_by_type(text: str) -> dict[str, str]:
    """Return {"Kind.field": "v1.GoType"} from lines `GoType: Kind.field Kind.field`."""
    rows = (line.strip().split(":", 1) for line in text.strip().splitlines())
    return {field: go if "." in go else f"v1.{go}" for go, fields in rows for field in fields.split()}


# The named Go type of each scalar field, or of the items of each list of scalars. Names without a package are in `v1`.
NAMED: Mapping[str, str] = _fields_by_type(
    """
    AddressType: EndpointSlice.addressType
    AllocationConfigSource: DeviceAllocationConfiguration.source
    AppArmorProfileType: AppArmorProfile.type
    AzureDataDiskCachingMode: AzureDiskVolumeSource.cachingMode
    AzureDataDiskKind: AzureDiskVolumeSource.kind
    Capability: Capabilities.add Capabilities.drop
    CompletionMode: JobSpec.completionMode
    ComponentConditionType: ComponentCondition.type
    ConcurrencyPolicy: CronJobSpec.concurrencyPolicy
    ConditionStatus: CertificateSigningRequestCondition.status ComponentCondition.status Condition.status \
CustomResourceDefinitionCondition.status DaemonSetCondition.status DeploymentCondition.status \
FlowSchemaCondition.status HorizontalPodAutoscalerCondition.status JobCondition.status \
NamespaceCondition.status NodeCondition.status PersistentVolumeClaimCondition.status PodCondition.status \
PodFailurePolicyOnPodConditionsPattern.status PriorityLevelConfigurationCondition.status \
ReplicaSetCondition.status ReplicationControllerCondition.status StatefulSetCondition.status
    ContainerRestartPolicy: Container.restartPolicy EphemeralContainer.restartPolicy
    ContainerRestartRuleAction: ContainerRestartRule.action
    ContainerRestartRuleOnExitCodesOperator: ContainerRestartRuleOnExitCodes.operator
    ConversionStrategyType: CustomResourceConversion.strategy
    CoordinatedLeaseStrategy: LeaseSpec.strategy
    CustomResourceDefinitionConditionType: CustomResourceDefinitionCondition.type
    DNSPolicy: PodSpec.dnsPolicy
    DaemonSetConditionType: DaemonSetCondition.type
    DaemonSetUpdateStrategyType: DaemonSetUpdateStrategy.type
    DeletionPropagation: DeleteOptions.propagationPolicy
    DeploymentConditionType: DeploymentCondition.type
    DeploymentStrategyType: DeploymentStrategy.type
    DeviceAllocationMode: DeviceSubRequest.allocationMode ExactDeviceRequest.allocationMode
    DeviceTaintEffect: DeviceTaint.effect DeviceToleration.effect
    DeviceTolerationOperator: DeviceToleration.operator
    FSGroupPolicy: CSIDriverSpec.fsGroupPolicy
    FailurePolicyType: MutatingAdmissionPolicySpec.failurePolicy MutatingWebhook.failurePolicy \
ValidatingAdmissionPolicySpec.failurePolicy ValidatingWebhook.failurePolicy
    FieldValueErrorReason: ValidationRule.reason
    FinalizerName: NamespaceSpec.finalizers
    FlowDistinguisherMethodType: FlowDistinguisherMethod.type
    FlowSchemaConditionType: FlowSchemaCondition.type
    FullyQualifiedName: DeviceConstraint.distinctAttribute DeviceConstraint.matchAttribute
    HorizontalPodAutoscalerConditionType: HorizontalPodAutoscalerCondition.type
    HostPathType: HostPathVolumeSource.type
    IPFamily: ServiceSpec.ipFamilies
    IPFamilyPolicy: ServiceSpec.ipFamilyPolicy
    JobConditionType: JobCondition.type
    KeyUsage: CertificateSigningRequestSpec.usages
    LabelSelectorOperator: LabelSelectorRequirement.operator
    LimitResponseType: LimitResponse.type
    LimitType: LimitRangeItem.type
    LoadBalancerIPMode: LoadBalancerIngress.ipMode
    ManagedFieldsOperationType: ManagedFieldsEntry.operation
    MatchPolicyType: MatchResources.matchPolicy MutatingWebhook.matchPolicy ValidatingWebhook.matchPolicy
    MetricSourceType: MetricSpec.type MetricStatus.type
    MountPropagationMode: VolumeMount.mountPropagation
    NamespaceConditionType: NamespaceCondition.type
    NamespacePhase: NamespaceStatus.phase
    NodeAddressType: NodeAddress.type
    NodeConditionType: NodeCondition.type
    NodeInclusionPolicy: TopologySpreadConstraint.nodeAffinityPolicy TopologySpreadConstraint.nodeTaintsPolicy
    NodePhase: NodeStatus.phase
    NodeSelectorOperator: NodeSelectorRequirement.operator
    OSName: PodOS.name
    OperationType: NamedRuleWithOperations.operations RuleWithOperations.operations
    ParameterNotFoundActionType: ParamRef.parameterNotFoundAction
    PatchType: Mutation.patchType
    PathType: HTTPIngressPath.pathType
    PersistentVolumeAccessMode: PersistentVolumeClaimSpec.accessModes PersistentVolumeClaimStatus.accessModes \
PersistentVolumeSpec.accessModes
    PersistentVolumeClaimConditionType: PersistentVolumeClaimCondition.type
    PersistentVolumeClaimModifyVolumeStatus: ModifyVolumeStatus.status
    PersistentVolumeClaimPhase: PersistentVolumeClaimStatus.phase
    PersistentVolumeClaimRetentionPolicyType: StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted \
StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled
    PersistentVolumeMode: PersistentVolumeClaimSpec.volumeMode PersistentVolumeSpec.volumeMode
    PersistentVolumePhase: PersistentVolumeStatus.phase
    PersistentVolumeReclaimPolicy: PersistentVolumeSpec.persistentVolumeReclaimPolicy StorageClass.reclaimPolicy
    PodConditionType: PodCondition.type PodFailurePolicyOnPodConditionsPattern.type \
PodReadinessGate.conditionType
    PodFSGroupChangePolicy: PodSecurityContext.fsGroupChangePolicy
    PodFailurePolicyAction: PodFailurePolicyRule.action
    PodFailurePolicyOnExitCodesOperator: PodFailurePolicyOnExitCodesRequirement.operator
    PodManagementPolicyType: StatefulSetSpec.podManagementPolicy
    PodPhase: PodStatus.phase
    PodQOSClass: PodStatus.qosClass
    PodReplacementPolicy: JobSpec.podReplacementPolicy
    PodResizeStatus: PodStatus.resize
    PodSELinuxChangePolicy: PodSecurityContext.seLinuxChangePolicy
    PolicyType: NetworkPolicySpec.policyTypes
    PreemptionPolicy: PodSpec.preemptionPolicy PriorityClass.preemptionPolicy
    PriorityLevelConfigurationConditionType: PriorityLevelConfigurationCondition.type
    PriorityLevelEnablement: PriorityLevelConfigurationSpec.type
    ProcMountType: SecurityContext.procMount
    Protocol: ContainerPort.protocol EndpointPort.protocol IngressPortStatus.protocol NetworkPolicyPort.protocol \
PortStatus.protocol ServicePort.protocol
    PullPolicy: Container.imagePullPolicy EphemeralContainer.imagePullPolicy ImageVolumeSource.pullPolicy
    RecursiveReadOnlyMode: VolumeMount.recursiveReadOnly VolumeMountStatus.recursiveReadOnly
    ReinvocationPolicyType: MutatingAdmissionPolicySpec.reinvocationPolicy MutatingWebhook.reinvocationPolicy
    ReplicaSetConditionType: ReplicaSetCondition.type
    ReplicationControllerConditionType: ReplicationControllerCondition.type
    RequestConditionType: CertificateSigningRequestCondition.type
    ResourceHealthStatus: ResourceHealth.health
    ResourceID: ResourceHealth.resourceID
    ResourceName: ContainerResizePolicy.resourceName ContainerResourceMetricSource.name \
ContainerResourceMetricStatus.name ResourceMetricSource.name ResourceMetricStatus.name ResourceStatus.name
    ResourceQuotaScope: ResourceQuotaSpec.scopes ScopedResourceSelectorRequirement.scopeName
    ResourceResizeRestartPolicy: ContainerResizePolicy.restartPolicy
    ResourceScope: CustomResourceDefinitionSpec.scope
    RestartPolicy: PodSpec.restartPolicy
    ScopeSelectorOperator: ScopedResourceSelectorRequirement.operator
    ScopeType: NamedRuleWithOperations.scope RuleWithOperations.scope
    SeccompProfileType: SeccompProfile.type
    SecretType: Secret.type
    ServiceAffinity: ServiceSpec.sessionAffinity
    ServiceExternalTrafficPolicy: ServiceSpec.externalTrafficPolicy
    ServiceInternalTrafficPolicy: ServiceSpec.internalTrafficPolicy
    ServiceType: ServiceSpec.type
    SideEffectClass: MutatingWebhook.sideEffects ValidatingWebhook.sideEffects
    Signal: ContainerStatus.stopSignal Lifecycle.stopSignal
    StatefulSetConditionType: StatefulSetCondition.type
    StatefulSetUpdateStrategyType: StatefulSetUpdateStrategy.type
    StatusReason: Status.reason
    StorageMedium: EmptyDirVolumeSource.medium
    SupplementalGroupsPolicy: PodSecurityContext.supplementalGroupsPolicy
    TaintEffect: Taint.effect Toleration.effect
    TerminationMessagePolicy: Container.terminationMessagePolicy EphemeralContainer.terminationMessagePolicy
    TolerationOperator: Toleration.operator
    URIScheme: HTTPGetAction.scheme
    UnhealthyPodEvictionPolicyType: PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy
    UniqueVolumeName: AttachedVolume.name NodeStatus.volumesInUse
    UnsatisfiableConstraintAction: TopologySpreadConstraint.whenUnsatisfiable
    ValidationAction: ValidatingAdmissionPolicyBindingSpec.validationActions
    VolumeBindingMode: StorageClass.volumeBindingMode
    VolumeLifecycleMode: CSIDriverSpec.volumeLifecycleModes
    types.UID: ConfigMapNodeConfigSource.uid DeviceRequestAllocationResult.shareID ObjectMeta.uid \
ObjectReference.uid OwnerReference.uid PodCertificateRequestSpec.nodeUID PodCertificateRequestSpec.podUID \
PodCertificateRequestSpec.serviceAccountUID Preconditions.uid ResourceClaimConsumerReference.uid \
UncountedTerminatedPods.failed UncountedTerminatedPods.succeeded
    v2.HPAScalingPolicyType: HPAScalingPolicy.type
    v2.MetricTargetType: MetricTarget.type
    v2.ScalingPolicySelect: HPAScalingRules.selectPolicy
    """
)

# For each kind: field -> the name of the embedded struct to which the field belongs. "*" stands for all fields that are
# not listed.
_VOLUME = {"*": "PersistentVolumeSource"} | dict.fromkeys(
    ("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"), ""
)
_VOLUME |= dict.fromkeys(("storageClassName", "volumeAttributesClassName", "volumeMode"), "")
_REFERENCE = {"name": "LocalObjectReference"}
_DEVICE = {"opaque": "DeviceConfiguration"}
EMBEDDED: Mapping[str, Mapping[str, str]] = {
    "ConfigMapEnvSource": _REFERENCE,
    "ConfigMapKeySelector": _REFERENCE,
    "ConfigMapProjection": _REFERENCE,
    "ConfigMapVolumeSource": _REFERENCE,
    "DeviceAllocationConfiguration": _DEVICE,
    "DeviceClaimConfiguration": _DEVICE,
    "DeviceClassConfiguration": _DEVICE,
    "EphemeralContainer": {"*": "EphemeralContainerCommon", "targetContainerName": ""},
    "IngressRule": {"http": "IngressRuleValue"},
    "NamedRuleWithOperations": {
        "*": "RuleWithOperations.Rule",
        "operations": "RuleWithOperations",
        "resourceNames": "",
    },
    "PersistentVolumeSpec": _VOLUME,
    "Probe": dict.fromkeys(("exec", "grpc", "httpGet", "tcpSocket"), "ProbeHandler"),
    "RuleWithOperations": {"*": "Rule", "operations": ""},
    "SecretEnvSource": _REFERENCE,
    "SecretKeySelector": _REFERENCE,
    "SecretProjection": _REFERENCE,
    "Volume": {"*": "VolumeSource", "name": ""},
}


def path_of(kind: str, field: str) -> str:
    """Return the path of a struct's field: its name, preceded by the name of the embedded struct to which it
    belongs."""
    parts = EMBEDDED.get(kind)
    if parts is None:
        return field
    prefix = parts.get(field, parts.get("*", ""))
    return f"{prefix}.{field}" if prefix else field
