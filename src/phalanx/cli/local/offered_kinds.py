"""Install the job kinds of other projects for `phalanx up --kinds`: their definitions, without their controllers.

The definitions have the names and versions of the projects, but a schema only for the conditions in the status.
Objects of these kinds are stored without further validation, and are queued as in a cluster with the project. Phalanx
has no controllers that create their pods. A ValidatingAdmissionPolicy warns each user who creates such an object, and
names the missing controller. The user can run the project's controller in addition to Phalanx, because the API is that
of Kubernetes. If the user applies the project's own definitions, they replace these definitions, and the API server
also validates the objects.

Sources: the CustomResourceDefinitions of ray-project/kuberay, kubeflow/spark-operator, kubeflow/trainer 1.9,
kubernetes-sigs/lws and argoproj/argo-workflows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.client.policies import VALIDATING, VALIDATING_BINDINGS, Made, made
from phalanx.errors import PhalanxError

_OPEN: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Final[Object] = {"type": "string", "nullable": True}
_CONDITION: Final[Object] = {
    **_OPEN,
    "properties": {
        **dict.fromkeys(("type", "status", "reason", "message"), _TEXT),
        "lastTransitionTime": {**_TEXT, "format": "date-time"},
    },
}
# Programs of all users read the conditions of an object, so their types are checked.
_STATUS: Final[Object] = {**_OPEN, "properties": {"conditions": {"type": "array", "items": _CONDITION}}}


class UnknownKindsError(PhalanxError):
    """The error if `--kinds` names an unknown project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The kinds of one project. `versions`: the served versions; the first one is stored. `kinds`: (kind, plural, short
    name or ""). `controller`: the name of the missing controller. `scale`: the kinds with a subresource `scale` for
    `spec.replicas`. `cluster_wide`: the kinds without a namespace. `approved`: the URL of the review that approved the
    API group; Kubernetes requires such a URL for groups under k8s.io. `by_pods`: True if the pods of the objects are
    queued instead of the objects."""

    group: str
    versions: tuple[str, ...]
    kinds: tuple[tuple[str, str, str], ...]
    controller: str
    scale: frozenset[str] = frozenset()
    cluster_wide: frozenset[str] = frozenset()
    approved: str = ""
    by_pods: bool = False


OFFERED: Final[dict[str, Offered]] = {
    "ray": Offered(
        group="ray.io",
        versions=("v1", "v1alpha1"),
        kinds=(
            ("RayCluster", "rayclusters", ""),
            ("RayJob", "rayjobs", ""),
            ("RayService", "rayservices", ""),
            ("RayCronJob", "raycronjobs", ""),
        ),
        controller="the KubeRay operator",
    ),
    "spark": Offered(
        group="sparkoperator.k8s.io",
        versions=("v1beta2",),
        kinds=(
            ("SparkApplication", "sparkapplications", "sparkapp"),
            ("ScheduledSparkApplication", "scheduledsparkapplications", "scheduledsparkapp"),
        ),
        controller="the Kubeflow Spark operator",
        approved="https://github.com/kubeflow/spark-operator/pull/1298",
    ),
    "tfjob": Offered(
        group="kubeflow.org",
        versions=("v1",),
        kinds=(
            ("TFJob", "tfjobs", ""),
            ("XGBoostJob", "xgboostjobs", ""),
            ("PaddleJob", "paddlejobs", ""),
            ("JAXJob", "jaxjobs", ""),
        ),
        controller="the Kubeflow training operator",
    ),
    "lws": Offered(
        group="leaderworkerset.x-k8s.io",
        versions=("v1",),
        kinds=(("LeaderWorkerSet", "leaderworkersets", "lws"),),
        controller="the controller of LeaderWorkerSet",
        scale=frozenset({"LeaderWorkerSet"}),
        by_pods=True,
    ),
    "argo": Offered(
        group="argoproj.io",
        versions=("v1alpha1",),
        kinds=(
            ("Workflow", "workflows", "wf"),
            ("WorkflowTemplate", "workflowtemplates", "wftmpl"),
            ("ClusterWorkflowTemplate", "clusterworkflowtemplates", "cwft"),
            ("CronWorkflow", "cronworkflows", "cwf"),
        ),
        controller="the workflow controller of Argo",
        cluster_wide=frozenset({"ClusterWorkflowTemplate"}),
        by_pods=True,
    ),
}


def offered(text: str) -> tuple[str, ...]:
    """Return the projects in a list such as `ray,spark`, without repetitions; `all` stands for all known projects.
    Raises UnknownKindsError for an unknown project."""
    named = dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip())
    if "all" in named:
        return tuple(OFFERED)
    if unknown := [word for word in named if word not in OFFERED]:
        raise UnknownKindsError(
            f"--kinds: {', '.join(unknown)} is not known; name some of {', '.join(OFFERED)}, or all"
        )
    return tuple(named)


def notes(projects: Sequence[str]) -> list[str]:
    """Return a sentence for each project, with its kinds and the controller that the user must run."""
    return [
        _missing(OFFERED[name], ", ".join(kind for kind, _, _ in OFFERED[name].kinds) + ": objects are")
        for name in projects
    ]


def objects(projects: Iterable[str]) -> list[tuple[Kind, Object]]:
    """Return the definitions of the projects' kinds, and the admission policies that warn users of these kinds."""
    found: list[tuple[Kind, Object]] = []
    for project in projects:
        each = OFFERED[project]
        found += [(CRDS, _definition(each, *names)) for names in each.kinds]
        found += _warning(project, each)
    return found


async def install_offered(connection: Connection, projects: Iterable[str]) -> None:
    """Create the missing definitions and policies. Existing objects, such as the project's own definitions, are not
    changed."""
    await asyncio.gather(*(_create(connection, kind, body) for kind, body in objects(projects)))


# --- internal ---------------------------------------------------------------------------------------------------------


def _missing(each: Offered, kinds: str) -> str:
    done, pods = ("stored", "the pods that are queued") if each.by_pods else ("stored and queued", "their pods")
    missing = f"{done}, but Phalanx does not create {pods}; run {each.controller} beside phalanx up"
    return f"{kinds} {missing}, with its kubeconfig"


def _definition(each: Offered, kind: str, plural: str, short_name: str) -> Object:
    subresources: dict[str, object] = {"status": {}}
    if kind in each.scale:
        subresources["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": _OPEN, "status": _STATUS}}
    columns = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    names: dict[str, Any] = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if short_name:
        names["shortNames"] = [short_name]
    metadata: dict[str, Any] = {"name": f"{plural}.{each.group}"}
    if each.approved:
        metadata["annotations"] = {"api-approved.kubernetes.io": each.approved}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.name,
        "metadata": metadata,
        "spec": {
            "group": each.group,
            "names": names,
            "scope": "Cluster" if kind in each.cluster_wide else "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == each.versions[0],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                    "additionalPrinterColumns": columns,
                }
                for version in each.versions
            ],
        },
    }


def _warning(project: str, each: Offered) -> list[Made]:
    """Return the admission policy that warns users who create an object of the project, and its binding."""
    name = f"no-controller-of-{project}.phalanx.dev"
    resources = [plural for _, plural, _ in each.kinds]
    rules = [{"apiGroups": [each.group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": resources}]
    spec = {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": _missing(each, "Objects of this kind are")}],
    }
    binding = {"policyName": name, "validationActions": ["Warn"]}
    return [made(VALIDATING, name, spec), made(VALIDATING_BINDINGS, name, binding)]


async def _create(connection: Connection, kind: Kind, body: Object) -> None:
    try:
        await connection.create(kind, body)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise
