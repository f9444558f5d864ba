"""The documentation of table columns that have no field of the same name.

A text such as `.DeploymentStatus.updatedReplicas` stands for the documentation of that field. The field is in the API
package of the kind, unless the text names another package. A text of any other form is the documentation itself.
Source: k8s.io/kubernetes/pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Mapping

# The documentation of columns that mean the same in every table.
SHARED: Mapping[str, str] = {
    "Containers": "Names of each container in the template.",
    "Images": "Images referenced by each container in the template.",
}

DOCUMENTED: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("", "Endpoints"): {
        "Endpoints": ".Endpoints.subsets",
    },
    ("", "Event"): {
        "Last Seen": ".Event.lastTimestamp",
        "Object": ".Event.involvedObject",
        "Subobject": ".ObjectReference.fieldPath",
        "First Seen": ".Event.firstTimestamp",
    },
    ("", "Namespace"): {
        "Status": "The status of the namespace",
    },
    ("", "Node"): {
        "Status": "The status of the node",
        "Roles": "The roles of the node",
        "Version": ".NodeSystemInfo.kubeletVersion",
        "Internal-IP": ".NodeStatus.addresses",
        "External-IP": ".NodeStatus.addresses",
        "OS-Image": ".NodeSystemInfo.osImage",
        "Kernel-Version": ".NodeSystemInfo.kernelVersion",
        "Container-Runtime": ".NodeSystemInfo.containerRuntimeVersion",
    },
    ("", "PersistentVolumeClaim"): {
        "Status": ".PersistentVolumeClaimStatus.phase",
        "Volume": ".PersistentVolumeClaimSpec.volumeName",
        "Access Modes": ".PersistentVolumeClaimStatus.accessModes",
        "StorageClass": "StorageClass of the pvc",
        "VolumeAttributesClass": "VolumeAttributesClass of the pvc",
        "VolumeMode": ".PersistentVolumeClaimSpec.volumeMode",
    },
    ("", "PersistentVolume"): {
        "Reclaim Policy": ".PersistentVolumeSpec.persistentVolumeReclaimPolicy",
        "Status": ".PersistentVolumeStatus.phase",
        "Claim": ".PersistentVolumeSpec.claimRef",
        "StorageClass": "StorageClass of the pv",
        "VolumeAttributesClass": "VolumeAttributesClass of the pv",
        "VolumeMode": ".PersistentVolumeSpec.volumeMode",
    },
    ("", "Pod"): {
        "Ready": "The aggregate readiness state of this pod for accepting traffic.",
        "Status": "The aggregate status of the containers in this pod.",
        "Restarts": "The number of times the containers in this pod have been restarted and when the last container "
        "in this pod has restarted.",
        "IP": ".PodStatus.podIP",
        "Node": ".PodSpec.nodeName",
        "Nominated Node": ".PodStatus.nominatedNodeName",
    },
    ("", "PodTemplate"): {
        "Pod Labels": "The labels for the pod template.",
    },
    ("", "ReplicationController"): {
        "Desired": ".ReplicationControllerSpec.replicas",
        "Current": ".ReplicationControllerStatus.replicas",
        "Ready": ".ReplicationControllerStatus.readyReplicas",
    },
    ("", "ResourceQuota"): {
        "Request": "Request represents a minimum amount of cpu/memory that a container may consume.",
        "Limit": "Limits control the maximum amount of cpu/memory that a container may use independent of "
        "contention on the node.",
    },
    ("", "Service"): {
        "Cluster-IP": ".ServiceSpec.clusterIP",
        "External-IP": ".ServiceSpec.externalIPs",
        "Port(s)": ".ServiceSpec.ports",
    },
    ("apps", "DaemonSet"): {
        "Desired": ".DaemonSetStatus.desiredNumberScheduled",
        "Current": ".DaemonSetStatus.currentNumberScheduled",
        "Ready": ".DaemonSetStatus.numberReady",
        "Up-to-date": ".DaemonSetStatus.updatedNumberScheduled",
        "Available": ".DaemonSetStatus.numberAvailable",
        "Node Selector": ".core.v1.PodSpec.nodeSelector",
    },
    ("apps", "Deployment"): {
        "Ready": "Number of the pod with ready state",
        "Up-to-date": ".DeploymentStatus.updatedReplicas",
        "Available": ".DeploymentStatus.availableReplicas",
    },
    ("apps", "ReplicaSet"): {
        "Desired": ".ReplicaSetSpec.replicas",
        "Current": ".ReplicaSetStatus.replicas",
        "Ready": ".ReplicaSetStatus.readyReplicas",
    },
    ("apps", "StatefulSet"): {
        "Ready": "Number of the pod with ready state",
    },
    ("batch", "CronJob"): {
        "Timezone": ".CronJobSpec.timeZone",
        "Last Schedule": ".CronJobStatus.lastScheduleTime",
        "Selector": ".JobSpec.selector",
    },
    ("batch", "Job"): {
        "Status": "Status of the job.",
        "Completions": ".JobStatus.succeeded",
        "Duration": "Time required to complete the job.",
    },
    ("certificates.k8s.io", "CertificateSigningRequest"): {
        "SignerName": "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. "
        "If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n"
        '    "kubernetes.io/kube-apiserver-client-kubelet".\n 2. If it\'s a kubelet serving certificate, '
        "it is assigned\n"
        '    "kubernetes.io/kubelet-serving".\n 3. Otherwise, it is assigned "kubernetes.io/legacy-unknown".\n'
        "Distribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.",
        "Requestor": "Base64-encoded PKCS#10 CSR data",
        "RequestedDuration": ".CertificateSigningRequestSpec.expirationSeconds",
        "Condition": "Conditions applied to the request, such as approval or denial.",
    },
    ("networking.k8s.io", "NetworkPolicy"): {
        "Pod-Selector": ".NetworkPolicySpec.podSelector",
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "Reference": ".HorizontalPodAutoscalerSpec.scaleTargetRef",
        "Targets": ".HorizontalPodAutoscalerSpec.metrics",
        "MinPods": ".HorizontalPodAutoscalerSpec.minReplicas",
        "MaxPods": ".HorizontalPodAutoscalerSpec.maxReplicas",
        "Replicas": ".HorizontalPodAutoscalerStatus.currentReplicas",
    },
    ("autoscaling", "Scale"): {
        "Desired": ".ScaleSpec.replicas",
        "Available": ".ScaleStatus.replicas",
    },
    ("coordination.k8s.io", "Lease"): {
        "Holder": ".LeaseSpec.holderIdentity",
    },
    ("discovery.k8s.io", "EndpointSlice"): {
        "AddressType": ".EndpointSlice.addressType",
    },
    ("events.k8s.io", "Event"): {
        "Last Seen": ".core.v1.Event.lastTimestamp",
        "Type": ".core.v1.Event.type",
        "Reason": ".core.v1.Event.reason",
        "Object": ".core.v1.Event.involvedObject",
        "Subobject": ".core.v1.ObjectReference.fieldPath",
        "Source": ".core.v1.Event.source",
        "Message": ".core.v1.Event.message",
        "First Seen": ".core.v1.Event.firstTimestamp",
        "Count": ".core.v1.Event.count",
    },
    ("networking.k8s.io", "Ingress"): {
        "Class": "The name of the IngressClass resource that should be used for additional configuration",
        "Hosts": "Hosts that incoming requests are matched against before the ingress rule",
        "Address": "Address is a list containing ingress points for the load-balancer",
        "Ports": "Ports of TLS configurations that open",
    },
    ("networking.k8s.io", "IngressClass"): {
        "Controller": "Controller that is responsible for handling this class",
        "Parameters": "A reference to a resource with additional parameters",
    },
    ("node.k8s.io", "RuntimeClass"): {
        "Handler": "",
    },
    ("policy", "PodDisruptionBudget"): {
        "Min Available": "The minimum number of pods that must be available.",
        "Max Unavailable": "The maximum number of pods that may be unavailable.",
        "Allowed Disruptions": "Calculated number of pods that may be disrupted at this time.",
    },
    ("scheduling.k8s.io", "PriorityClass"): {
        "PreemptionPolicy": ".PriorityClass.preemptionPolicy",
    },
    ("storage.k8s.io", "StorageClass"): {
        "ReclaimPolicy": ".StorageClass.reclaimPolicy",
        "VolumeBindingMode": ".StorageClass.volumeBindingMode",
        "AllowVolumeExpansion": ".StorageClass.allowVolumeExpansion",
    },
    ("storage.k8s.io", "CSIDriver"): {
        "AttachRequired": ".CSIDriverSpec.attachRequired",
        "PodInfoOnMount": ".CSIDriverSpec.podInfoOnMount",
        "StorageCapacity": ".CSIDriverSpec.storageCapacity",
        "TokenRequests": ".CSIDriverSpec.tokenRequests",
        "RequiresRepublish": ".CSIDriverSpec.requiresRepublish",
        "Modes": ".CSIDriverSpec.volumeLifecycleModes",
    },
    ("storage.k8s.io", "CSINode"): {
        "Drivers": "Drivers indicates the number of CSI drivers registered on the node",
    },
    ("storage.k8s.io", "VolumeAttachment"): {
        "PV": ".VolumeAttachmentSource.persistentVolumeName",
        "Node": ".VolumeAttachmentSpec.nodeName",
    },
    ("resource.k8s.io", "ResourceClaim"): {
        "State": "A summary of the current state (allocated, pending, reserved, etc.).",
    },
    ("resource.k8s.io", "ResourceSlice"): {
        "Node": ".ResourceSliceSpec.nodeName",
        "Pool": ".ResourcePool.name",
    },
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): {
        "Mutations": "Mutation indicates the number of mutations rules defined in this configuration",
        "ParamKind": "ParamKind specifies the kind of resources used to parameterize this policy",
    },
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): {
        "PolicyName": "PolicyName indicates the policy definition which the policy binding binded to",
        "ParamRef": "ParamRef indicates the param resource which sets the configuration param",
    },
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {
        "Webhooks": "Webhooks indicates the number of webhooks registered in this configuration",
    },
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {
        "Webhooks": "Webhooks indicates the number of webhooks registered in this configuration",
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): {
        "PolicyName": "PolicyName indicates the policy definition which the policy binding binded to",
        "ParamRef": "ParamRef indicates the param resource which sets the configuration param",
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {
        "Validations": "Validations indicates the number of validation rules defined in this configuration",
        "ParamKind": "ParamKind specifies the kind of resources used to parameterize this policy",
    },
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "Role": "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be "
        "resolved, the Authorizer must return an error.",
        "Users": "Users in the clusterRoleBinding",
        "Groups": "Groups in the clusterRoleBinding",
        "ServiceAccounts": "ServiceAccounts in the clusterRoleBinding",
    },
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "Role": "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. "
        "If the RoleRef cannot be resolved, the Authorizer must return an error.",
        "Users": "Users in the roleBinding",
        "Groups": "Groups in the roleBinding",
        "ServiceAccounts": "ServiceAccounts in the roleBinding",
    },
}
