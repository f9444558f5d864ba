"""The tables of `kubectl get` for each built-in kind: the columns and the cells.

The columns of a table are described in one line: `Name` is a string, `Value:integer` has a type, and `Node+` is shown
only with `-o wide`. A kind that is not in `PRINTERS` shows its name and its age, as in kube-apiserver. Source of the
columns and of the texts in cells: k8s.io/kubernetes/pkg/printers/internalversion/printers.go.

The module also has the cells of kinds that drivers of volumes and devices publish."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.embedded.apiserver.transport.tables.core_rows import (
    claim_cells,
    endpoints_cells,
    event_cells,
    ingress_cells,
    ingress_class_cells,
    new_event_cells,
    node_cells,
    quota_cells,
    service_cells,
    signing_cells,
    slice_cells,
    storage_class_cells,
    volume_cells,
)
from phalanx.embedded.apiserver.transport.tables.pod_row import pod_cells
from phalanx.embedded.apiserver.transport.tables.printer import (
    Cells,
    Object,
    Printer,
    age,
    columns,
    name_and_age,
    selector_text,
)
from phalanx.embedded.apiserver.transport.tables.workload_rows import (
    cron_job_cells,
    daemon_set_cells,
    deployment_cells,
    job_cells,
    pod_template_cells,
    replica_set_cells,
    replication_controller_cells,
    stateful_set_cells,
)


def driver_cells(driver: Object, now_s: float) -> list[object]:
    spec, requests = driver["spec"], driver["spec"].get("tokenRequests")
    return [
        driver["metadata"]["name"],
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        "<unset>" if requests is None else ",".join(one.get("audience", "") for one in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age(driver, now_s),
    ]


def attachment_cells(attachment: Object, now_s: float) -> list[object]:
    spec = attachment["spec"]
    return [
        attachment["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (attachment.get("status") or {}).get("attached", False),
        age(attachment, now_s),
    ]


def claim_state(claim: Object) -> str:
    """Return the state of a ResourceClaim, such as `pending`, `allocated`, `allocated,reserved` or `deleted`."""
    is_deleted, status = bool(claim["metadata"].get("deletionTimestamp")), claim.get("status") or {}
    states = ["deleted"] if is_deleted else []
    if status.get("allocation") is None:
        return ",".join(states or ["pending"])
    return ",".join([*states, "allocated", *(["reserved"] if status.get("reservedFor") else [])])


def _int_or_string(value: object) -> str:
    return "N/A" if value is None else str(value)


def _binding_cells(binding: Object, now_s: float) -> list[object]:
    role, subjects = binding["roleRef"], binding.get("subjects") or ()

    def named(kind: str) -> str:
        found = (one for one in subjects if one.get("kind") == kind)
        if kind != "ServiceAccount":
            return ", ".join(one["name"] for one in found)
        return ", ".join(f"{one.get('namespace', '')}/{one['name']}" for one in found)

    who = [named(kind) for kind in ("User", "Group", "ServiceAccount")]
    return [binding["metadata"]["name"], f"{role['kind']}/{role['name']}", age(binding, now_s), *who]


def _scaled(scaler: Object) -> str:
    """Return the kind and the name of the object that a HorizontalPodAutoscaler scales."""
    target = scaler["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _policy(rules: str) -> Cells:
    """Return the function for the cells of an admission policy: its name, the number of its rules, and the kind of its
    parameters. `rules`: the field with the rules."""

    def param(policy: Object) -> str:
        kind = policy["spec"].get("paramKind")
        return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"

    return name_and_age(lambda policy: len(policy["spec"].get(rules) or ()), param)


def _policy_param(binding: Object) -> str:
    reference = binding["spec"].get("paramRef") or {}
    return "/".join(part for part in (reference.get("namespace"), reference.get("name")) if part) or "<unset>"


def _group_policy(group: Object) -> str:
    return "Gang" if (group["spec"].get("schedulingPolicy") or {}).get("gang") is not None else "Basic"


def _group_workload(group: Object) -> str:
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload") or {}
    return str(reference.get("workloadName", "<none>"))


def _group_state(group: Object) -> str:
    conditions = (group.get("status") or {}).get("conditions") or ()
    known = next((one for one in conditions if one.get("type") == "PodGroupScheduled"), None)
    if known is None:
        return "Pending"
    return "Scheduled" if known.get("status") == "True" else str(known.get("reason", ""))


def _printer(line: str, cells: Cells) -> Printer:
    return Printer(columns=columns(line), cells=cells)


_BINDING = "Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"
_EVENT_COLUMNS = "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | Count+ | Name+"

_POLICY_BINDING = _printer(
    "Name | PolicyName | ParamRef | Age",
    name_and_age(lambda one: one["spec"].get("policyName", ""), _policy_param),
)

_WEBHOOKS = _printer("Name | Webhooks:integer | Age", name_and_age(lambda one: len(one.get("webhooks") or ())))

PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("", "Pod"): _printer(
        "Name | Ready | Status | Restarts | Age | IP+ | Node+ | Nominated Node+ | Readiness Gates+", pod_cells
    ),
    ("", "Node"): _printer(
        "Name | Status | Roles | Age | Version | Internal-IP+ | External-IP+ | OS-Image+ | Kernel-Version+"
        " | Container-Runtime+",
        node_cells,
    ),
    ("", "Namespace"): _printer(
        "Name | Status | Age", name_and_age(lambda one: one.get("status", {}).get("phase", ""))
    ),
    ("", "ConfigMap"): _printer(
        "Name | Data | Age", name_and_age(lambda one: len(one.get("data") or ()) + len(one.get("binaryData") or ()))
    ),
    ("", "Secret"): _printer(
        "Name | Type | Data | Age",
        name_and_age(lambda one: one.get("type", ""), lambda one: len(one.get("data") or ())),
    ),
    ("", "Service"): _printer("Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector+", service_cells),
    ("", "ServiceAccount"): _printer("Name | Age", name_and_age()),
    ("", "Event"): _printer(_EVENT_COLUMNS, event_cells),
    ("", "Endpoints"): _printer("Name | Endpoints | Age", endpoints_cells),
    ("", "PersistentVolumeClaim"): _printer(
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode+",
        claim_cells,
    ),
    ("", "PersistentVolume"): _printer(
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass"
        " | Reason | Age | VolumeMode+",
        volume_cells,
    ),
    ("", "PodTemplate"): _printer("Name | Containers | Images | Pod Labels", pod_template_cells),
    ("", "ReplicationController"): _printer(
        "Name | Desired:integer | Current:integer | Ready:integer | Age | Containers+ | Images+ | Selector+",
        replication_controller_cells,
    ),
    ("", "ResourceQuota"): _printer("Name | Request | Limit | Age", quota_cells),
    ("batch", "Job"): _printer(
        "Name | Status | Completions | Duration | Age | Containers+ | Images+ | Selector+", job_cells
    ),
    ("batch", "CronJob"): _printer(
        "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | Containers+ | Images+"
        " | Selector+",
        cron_job_cells,
    ),
    ("apps", "Deployment"): _printer(
        "Name | Ready | Up-to-date | Available | Age | Containers+ | Images+ | Selector+", deployment_cells
    ),
    ("apps", "ReplicaSet"): _printer(
        "Name | Desired:integer | Current:integer | Ready:integer | Age | Containers+ | Images+ | Selector+",
        replica_set_cells,
    ),
    ("apps", "DaemonSet"): _printer(
        "Name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer | Available:integer"
        " | Node Selector | Age | Containers+ | Images+ | Selector+",
        daemon_set_cells,
    ),
    ("apps", "StatefulSet"): _printer("Name | Ready | Age | Containers+ | Images+", stateful_set_cells),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _printer(
        "Name | Validations:integer | ParamKind | Age", _policy("validations")
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _printer(
        "Name | Mutations:integer | ParamKind | Age", _policy("mutations")
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("autoscaling", "HorizontalPodAutoscaler"): _printer(
        "Name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
        name_and_age(
            _scaled,
            lambda one: "<unknown>",
            lambda one: str(one["spec"].get("minReplicas", "<unset>")),
            lambda one: one["spec"].get("maxReplicas", 0),
            lambda one: one.get("status", {}).get("currentReplicas", 0),
        ),
    ),
    ("autoscaling", "Scale"): _printer(
        "Name:string | Desired:integer | Available:integer | Age",
        name_and_age(lambda one: one["spec"].get("replicas", 0), lambda one: one["status"].get("replicas", 0)),
    ),
    ("coordination.k8s.io", "Lease"): _printer(
        "Name | Holder | Age", name_and_age(lambda one: one.get("spec", {}).get("holderIdentity") or "")
    ),
    ("discovery.k8s.io", "EndpointSlice"): _printer("Name | AddressType | Ports | Endpoints | Age", slice_cells),
    ("certificates.k8s.io", "CertificateSigningRequest"): _printer(
        "Name | Age | SignerName | Requestor | RequestedDuration | Condition", signing_cells
    ),
    ("networking.k8s.io", "IngressClass"): _printer("Name | Controller | Parameters | Age", ingress_class_cells),
    ("networking.k8s.io", "NetworkPolicy"): _printer(
        "Name | Pod-Selector | Age", name_and_age(lambda one: selector_text(one["spec"].get("podSelector")))
    ),
    ("networking.k8s.io", "Ingress"): _printer("Name | Class | Hosts | Address | Ports | Age", ingress_cells),
    ("storage.k8s.io", "StorageClass"): _printer(
        "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age", storage_class_cells
    ),
    ("storage.k8s.io", "CSIDriver"): _printer(
        "Name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | TokenRequests"
        " | RequiresRepublish:boolean | Modes | Age",
        driver_cells,
    ),
    ("storage.k8s.io", "CSINode"): _printer(
        "Name | Drivers:integer | Age", name_and_age(lambda one: len(one["spec"].get("drivers") or ()))
    ),
    ("storage.k8s.io", "VolumeAttachment"): _printer(
        "Name | Attacher | PV | Node | Attached:boolean | Age", attachment_cells
    ),
    ("resource.k8s.io", "DeviceClass"): _printer("Name | Age", name_and_age()),
    ("resource.k8s.io", "ResourceClaim"): _printer("Name | State | Age", name_and_age(claim_state)),
    ("resource.k8s.io", "ResourceClaimTemplate"): _printer("Name | Age", name_and_age()),
    ("resource.k8s.io", "ResourceSlice"): _printer(
        "Name | Node | Driver | Pool | Age",
        name_and_age(
            lambda one: one["spec"].get("nodeName", ""),
            lambda one: one["spec"].get("driver", ""),
            lambda one: one["spec"].get("pool", {}).get("name", ""),
        ),
    ),
    ("events.k8s.io", "Event"): _printer(_EVENT_COLUMNS, new_event_cells),
    ("node.k8s.io", "RuntimeClass"): _printer("Name | Handler | Age", name_and_age(lambda one: one.get("handler", ""))),
    ("policy", "PodDisruptionBudget"): _printer(
        "Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
        name_and_age(
            lambda one: _int_or_string(one["spec"].get("minAvailable")),
            lambda one: _int_or_string(one["spec"].get("maxUnavailable")),
            lambda one: one.get("status", {}).get("disruptionsAllowed", 0),
        ),
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _printer(_BINDING, _binding_cells),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _printer(_BINDING, _binding_cells),
    ("scheduling.k8s.io", "PodGroup"): _printer(
        "Name | Policy | Workload | Status | Age", name_and_age(_group_policy, _group_workload, _group_state)
    ),
    ("scheduling.k8s.io", "Workload"): _printer("Name | Age", name_and_age()),
    ("scheduling.k8s.io", "PriorityClass"): _printer(
        "Name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy",
        lambda one, now_s: [
            one["metadata"]["name"],
            one.get("value", 0),
            bool(one.get("globalDefault")),
            age(one, now_s),
            one.get("preemptionPolicy") or "<unset>",
        ],
    ),
}
