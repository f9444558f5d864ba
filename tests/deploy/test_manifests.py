"""Point 20 of the protocol, rights: what `deploy/` installs is what the code expects, and allows what the code uses.

`PHALANX_REWRITE=1 pytest tests/deploy/test_manifests.py` writes the generated files anew; read the difference."""

from __future__ import annotations

import ast
import importlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.cli.commands.in_cluster.served_apis import APIS, READ
from phalanx.cli.local.node_groups.provider_fields import NODE_REQUESTS
from phalanx.client.kind import JOBS, Kind
from phalanx.clusters.copies.sendable import SENDABLE
from phalanx.clusters.workers.source import NAMESPACE as KUBECONFIGS
from phalanx.dialects.enabled import DIALECTS, RIVALS
from phalanx.dialects.kueue.tree.checks import SENDING
from phalanx.extensions.aggregation import CONFIG_MAP
from phalanx.extensions.webhook.trust import CALLED_AS_WEBHOOK
from phalanx.kube.install.admission_policy import (
    ACCOUNT,
    INSTALLED,
    PATH,
    RECORDS_POLICIES,
    SERVICE,
    SERVICE_NAMESPACE,
    WEBHOOK,
    WEBHOOKS,
)
from phalanx.kube.install.definitions import DEFINITIONS, crds_of, policies_of
from phalanx.kube.install.installation import NAME as RECORD_KEY
from phalanx.kube.leader import NAME as LEASE
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS
from phalanx.kube.routing.caches import LOOKED_UP, REQUIRED
from phalanx.kube.status.usage import NAME as USAGE
from phalanx.providers.counted import machines
from tests.cli.upstart import phalanx

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBE = ROOT / "src" / "phalanx" / "kube"
# `reach` is for commands of users, which come with their own rights; `worker` calls other clusters.
CLUSTERS = [
    path
    for path in sorted((ROOT / "src" / "phalanx" / "clusters").rglob("*.py"))
    if path.stem not in ("reach", "worker")
]
PROVIDERS = [path for path in sorted((ROOT / "src" / "phalanx" / "providers").glob("*.py")) if path.stem != "simulated"]

# Dialects of the frame with definitions, and the installed ones.
BROUGHT = {
    each: [*crds_of(each), *(body for _, body in policies_of(each))]
    for each in DIALECTS.values()
    if each.crds and (DEPLOY / "components" / each.name).exists()
}
GENERATED = {
    DEPLOY / "base" / "definitions.yaml": list(DEFINITIONS.values()),
    DEPLOY / "base" / "records.yaml": [body for _, body in RECORDS_POLICIES],
    **{DEPLOY / "components" / each.name / "definitions.yaml": bodies for each, bodies in BROUGHT.items()},
    DEPLOY / "overlays" / "mutating" / "policies.yaml": [body for _, body in INSTALLED],
    DEPLOY / "overlays" / "webhook" / "configuration.yaml": [WEBHOOK],
}


def objects(path: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


@pytest.mark.slow
@pytest.mark.parametrize("path", GENERATED, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_generated_is_what_the_code_installs(path: Path) -> None:
    if os.environ.get("PHALANX_REWRITE"):
        head = "# Written by tests/deploy/test_manifests.py from src/phalanx/kube: change it there.\n"
        path.write_text(head + yaml.safe_dump_all(GENERATED[path], sort_keys=False, width=120, allow_unicode=True))
    assert objects(path) == GENERATED[path], "PHALANX_REWRITE=1 .venv/bin/pytest tests/deploy/test_manifests.py"


# --- rights ----------------------------------------------------------------------------------------------------------

Right = tuple[str, str, str]  # verb, group, resource/subresource
VERBS = {"get": "get", "list": "list", "create": "create", "replace": "update", "patch": "patch", "delete": "delete"}
SUBRESOURCE = {"create": 3, "replace": 2, "patch": 4}  # where it stands among the arguments of that call
API = re.compile(r"\b(_?api|_?connection)$")


def calls(path: Path) -> Iterator[Right]:
    """Every call in the file that names its kind: `api.patch(PODS, name, body, namespace, "status")`."""
    module = importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in VERBS:
            continue
        for kind in _kinds(module, node):
            if API.search(ast.unparse(node.func.value)):
                yield VERBS[node.func.attr], kind.group, kind.plural + _subresource(node, node.func.attr)


def _kinds(module: object, call: ast.Call) -> tuple[Kind, ...]:
    """A kind by name; or whatever a Job's adapter stands for: a Job, or a training job."""
    if call.args and ast.unparse(call.args[0]).endswith(".adapter.kind"):
        return JOBS, *FRAMEWORK_KINDS
    kind = getattr(module, call.args[0].id, None) if call.args and isinstance(call.args[0], ast.Name) else None
    return (kind,) if isinstance(kind, Kind) else ()


def _subresource(node: ast.Call, method: str) -> str:
    at = SUBRESOURCE.get(method, 99)
    said = node.args[at] if len(node.args) > at else None
    said = next((one.value for one in node.keywords if one.arg == "subresource"), said)
    return f"/{said.value}" if isinstance(said, ast.Constant) and said.value else ""


def used() -> set[Right]:
    """What the code asks for: the calls that name their kind, the caches, and what installing looks at."""
    paths = (*sorted(KUBE.rglob("*.py")), *CLUSTERS, *PROVIDERS)
    found = {right for path in paths for right in calls(path)}
    for kind in (*REQUIRED, *LOOKED_UP, *FRAMEWORK_KINDS):
        found |= {(verb, kind.group, kind.plural) for verb in ("list", "watch")}
    for dialect in (each for name, each in DIALECTS.items() if (DEPLOY / "components" / name).exists()):
        kinds = (*dialect.definition_kinds, *dialect.answer_kinds)
        found |= {(verb, kind.group, kind.plural.rpartition("/")[2]) for kind in kinds for verb in ("list", "watch")}
    found |= {("get", kind.group, kind.plural) for each in BROUGHT for kind, _ in each.policies}
    for group, answered in (*ANSWERS.items(), *MACHINES.items()):
        found |= {(verb, group, resource) for resource, verbs in answered.items() for verb in verbs}
    found |= {("patch", kind.group, f"{kind.plural}/status") for kind in SENDABLE}
    found |= {("get", "apiextensions.k8s.io", "customresourcedefinitions")}
    found |= {("get", "admissionregistration.k8s.io", kind.plural) for kind, _ in INSTALLED}
    return found | {("get", "phalanx.dev", "queues"), ("create", "phalanx.dev", "queues")}


# What `kube/status/dialect_answers.py` writes of each group's kinds, by what their dialect answers.
ANSWERS: dict[str, dict[str, tuple[str, ...]]] = {
    "scheduling.k8s.io": {"podgroups/status": ("patch",)},
    "kueue.x-k8s.io": {
        "workloads": ("create", "patch", "delete"),
        "workloads/status": ("patch",),
        "clusterqueues": ("patch",),
        "clusterqueues/status": ("patch",),
        "localqueues/status": ("patch",),
        "cohorts/status": ("patch",),
        "admissionchecks/status": ("patch",),
        "multikueueclusters/status": ("patch",),
        "resourceflavors": ("patch",),
    },
    "autoscaling.x-k8s.io": {"provisioningrequests": ("create", "delete")},
    "": {"podtemplates": ("create",)},
    "scheduling.run.ai": {
        "podgroups": ("create",),
        "podgroups/status": ("patch",),
        "queues": ("create",),
        "queues/status": ("patch",),
    },
    "scheduling.sigs.k8s.io": {"podgroups": ("patch",), "elasticquotas": ("create", "patch")},
    # The placement of a Reservation is written like a binding, and read if the answer was lost.
    "scheduling.koordinator.sh": {"reservations": ("get",), "reservations/status": ("patch",)},
    "scheduling.volcano.sh": {"podgroups": ("patch",), "podgroups/status": ("patch",), "queues/status": ("patch",)},
    "topology.volcano.sh": {"hypernodes/status": ("patch",)},
    "scheduling.x-k8s.io": {"podgroups/status": ("patch",), "elasticquotas/status": ("patch",)},
}
# What `providers/counted/machines.py` does with the kinds that a file of node groups names.
MACHINES: dict[str, dict[str, tuple[str, ...]]] = {
    group: {
        "machines": ("get", "list", "patch"),
        **{plural: ("get",) for (each, _), plural in machines.KINDS.items() if each == group},
        **{f"{plural}/scale": ("patch",) for (each, _), plural in machines.KINDS.items() if each == group},
    }
    for group in (machines.CLUSTER_API, machines.OPENSHIFT)
}
# The manifests create these objects, so that the scheduler needs no right to.
MADE_BY_THE_MANIFESTS = {
    ("create", "coordination.k8s.io", "leases"),
    ("create", "", "configmaps"),
    ("create", "", "secrets"),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions"),
}


IN_FRONT = DEPLOY / "overlays" / "webhook"
KUEUE_VISIBILITY, NUMBERS = (DEPLOY / "components" / name for name in ("kueue-visibility", "numbers"))
PAGE, PAGE_BEHIND_PROXY = (DEPLOY / "components" / name for name in ("dashboard", "dashboard-proxy"))
OTHER_ACCOUNTS = {KUEUE_VISIBILITY, NUMBERS, PAGE, PAGE_BEHIND_PROXY}
SCHEDULER = (
    DEPLOY / "base" / "rbac.yaml",
    *(path for path in sorted(DEPLOY.glob("components/*/rbac.yaml")) if path.parent not in OTHER_ACCOUNTS),
)


def rules(paths: Iterable[Path] = SCHEDULER) -> Iterator[Any]:
    """Of the base, and of what may be added to it."""
    for path in paths:
        for role in objects(path):
            yield from role.get("rules", ())


def granted(paths: Iterable[Path] = SCHEDULER) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in rules(paths)
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.slow
def test_what_the_code_asks_for_is_granted_and_nothing_else() -> None:
    wanted = used() - MADE_BY_THE_MANIFESTS
    assert sorted(wanted - granted()) == [], "the code makes calls that deploy/base/rbac.yaml does not allow"
    assert sorted(granted() - wanted) == [], "deploy/base/rbac.yaml allows what the code never does"


@pytest.mark.slow
def test_the_derivation_sees_what_everybody_knows_it_does() -> None:
    """It is no empty comparison: a binding, an eviction and a condition are among the calls that are found."""
    assert {
        ("create", "", "pods/binding"),
        ("create", "", "pods/eviction"),
        ("patch", "", "pods/status"),
        ("patch", "phalanx.dev", "queues/status"),
        ("patch", "batch", "jobs"),
    } <= used()


def test_what_is_dangerous_is_not_granted() -> None:
    """kubernetes.md, point 20: no pod is created or deleted, no secret read, and no right is a wildcard. Pods that
    request nodes are an exception, in a namespace of their own, and so are nodes that providers remove,
    and kubeconfigs of other clusters, which are in Secrets."""
    own, removal = (DEPLOY / "components" / name / "rbac.yaml" for name in ("node-groups", "node-removal"))
    assert {each["metadata"]["namespace"] for each in objects(own)} == {NODE_REQUESTS}
    assert {resource for _, _, resource in granted([removal])} == {"nodes"}
    for verb, _, resource in granted(path for path in SCHEDULER if path not in (own, removal)):
        assert "*" not in (verb, resource)
        assert verb not in {"deletecollection", "escalate", "bind", "impersonate"}
        assert verb != "delete" or resource in {"provisioningrequests", "workloads"}
        assert resource not in {"pods/exec", "serviceaccounts/token"}
        assert (verb, resource) != ("create", "pods")
    clusters = DEPLOY / "components" / "clusters" / "rbac.yaml"  # kubeconfigs, in a namespace of their own
    assert {each["metadata"].get("namespace") for each in objects(clusters) if each["kind"] == "Role"} == {KUBECONFIGS}
    others = [path for path in SCHEDULER if path != clusters]
    secrets = [rule for rule in rules(others) if "secrets" in rule["resources"]]
    assert [rule["resourceNames"] for rule in secrets] == [[RECORD_KEY]], "of secrets, its own key"


def test_the_policies_know_the_scheduler_by_the_account_that_it_has() -> None:
    found = [one["metadata"] for one in objects(DEPLOY / "base" / "account.yaml") if one["kind"] == "ServiceAccount"]
    assert [f"system:serviceaccount:{one['namespace']}:{one['name']}" for one in found] == [ACCOUNT]


def test_names_in_the_manifests_are_those_of_the_code() -> None:
    made = {(each["kind"], each["metadata"]["name"]) for each in objects(DEPLOY / "base" / "state.yaml")}
    assert made == {("Lease", LEASE), ("ConfigMap", USAGE), ("Secret", RECORD_KEY)}
    named = {name for rule in rules() for name in rule.get("resourceNames", ())}
    definitions = {body["metadata"]["name"] for body in DEFINITIONS.values()}
    definitions |= {body["metadata"]["name"] for each in BROUGHT for body in crds_of(each)}
    policies = (*(body for _, body in INSTALLED), *(body for each in BROUGHT for _, body in each.policies), WEBHOOK)
    admission = {body["metadata"]["name"] for body in policies}
    rivals = {rival.lease or rival.deployment for rival in RIVALS.values()}
    assert named == {LEASE, USAGE, RECORD_KEY, SENDING} | definitions | admission | rivals


# --- the webhook -----------------------------------------------------------------------------------------------------


def test_the_webhook_may_do_what_its_code_does_with_two_objects_and_nothing_else() -> None:
    wanted = {
        right for path in sorted((KUBE.with_name("extensions") / "webhook").glob("*.py")) for right in calls(path)
    }
    wanted |= {(verb, WEBHOOKS.group, WEBHOOKS.plural) for verb in ("get", "update")}
    assert granted([IN_FRONT / "rbac.yaml"]) == wanted
    named = [tuple(rule["resourceNames"]) for rule in rules([IN_FRONT / "rbac.yaml"])]
    assert named == [(CALLED_AS_WEBHOOK.kept_in,), CALLED_AS_WEBHOOK.names]


def test_who_calls_the_webhook_finds_it() -> None:
    made = {each["kind"]: each for each in objects(IN_FRONT / "webhook.yaml")}
    service, deployment = made["Service"], made["Deployment"]
    (hook,) = objects(IN_FRONT / "configuration.yaml")[0]["webhooks"]
    assert hook["clientConfig"]["service"] == {
        "name": service["metadata"]["name"],
        "namespace": service["metadata"]["namespace"],
        "port": service["spec"]["ports"][0]["port"],
        "path": PATH,
    }
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == (SERVICE, SERVICE_NAMESPACE)
    assert made["Secret"]["metadata"] == {"name": CALLED_AS_WEBHOOK.kept_in, "namespace": SERVICE_NAMESPACE}
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
    assert f"$(POD_IP):{ports['webhook']}" in container["args"]
    assert made["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": ports["webhook"]}]


def test_the_webhook_is_guarded_as_the_scheduler_is() -> None:
    """The same hardening, and an account that is not the scheduler's."""
    theirs = one("scheduler.yaml", "Deployment")["spec"]["template"]["spec"]
    made = {each["kind"]: each for each in objects(IN_FRONT / "webhook.yaml")}
    ours = made["Deployment"]["spec"]["template"]["spec"]
    assert ours["securityContext"] == theirs["securityContext"]
    assert ours["containers"][0]["securityContext"] == theirs["containers"][0]["securityContext"]
    assert ours["serviceAccountName"] != theirs["serviceAccountName"]


# --- the visibility API ----------------------------------------------------------------------------------------------


FOLLOWED = (*REQUIRED, *LOOKED_UP)
# dialect or Phalanx -> its manifests, the file with the Deployment, the kinds that it follows, and what else it reads
AGGREGATED = {
    "kueue": (KUEUE_VISIBILITY, "visibility.yaml", READ, set[Right](), (CONFIG_MAP,)),
    "phalanx": (NUMBERS, "numbers.yaml", FOLLOWED, {("get", "coordination.k8s.io", "leases")}, (CONFIG_MAP, USAGE)),
}


@pytest.mark.parametrize("api", APIS)
def test_an_aggregated_api_may_do_what_its_code_does_and_nothing_else(api: str) -> None:
    folder, _, followed, more, config_maps = AGGREGATED[api]
    called = APIS[api].called
    paths = (
        KUBE.with_name("extensions") / "aggregation.py",
        KUBE.with_name("extensions") / "webhook" / "trust.py",
    )
    wanted = {right for path in paths for right in calls(path)} | more
    wanted |= {(verb, kind.group, kind.plural) for kind in followed for verb in ("list", "watch")}
    wanted |= {(verb, called.kind.group, called.kind.plural) for verb in ("get", "update")}
    assert granted([folder / "rbac.yaml"]) == wanted
    named = {tuple(rule["resourceNames"]) for rule in rules([folder / "rbac.yaml"]) if "resourceNames" in rule}
    leases = {(LEASE,)} if more else set()
    assert named == {(called.kept_in,), config_maps, tuple(sorted(called.names))} | leases


@pytest.mark.parametrize("api", APIS)
def test_api_servers_that_pass_requests_on_find_who_answers(api: str) -> None:
    folder, file, *_ = AGGREGATED[api]
    called = APIS[api].called
    assert str(folder.relative_to(ROOT)) == called.made_by
    made = {each["kind"]: each for each in objects(folder / file)}
    services = objects(folder / "api.yaml")
    assert sorted(each["metadata"]["name"] for each in services) == sorted(called.names)
    for each in services:
        said, service = each["spec"], made["Service"]
        assert each["metadata"]["name"] == f"{said['version']}.{said['group']}"
        meta, port = service["metadata"], service["spec"]["ports"][0]["port"]
        assert said["service"] == {"name": meta["name"], "namespace": meta["namespace"], "port": port}
        assert "caBundle" not in said, "applying it again must not take away whom to trust"
    assert made["Service"]["metadata"]["name"] == APIS[api].service
    assert made["Secret"]["metadata"]["name"] == called.kept_in
    pod = made["Deployment"]["spec"]["template"]
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        selector = made[kind]["spec"]
        assert selector.get("selector", selector.get("podSelector"))["matchLabels"] == pod["metadata"]["labels"]
    assert made["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in made["Service"]["spec"]["ports"]} == set(ports)
    answers = ports[container["name"]]
    assert container["args"][0] == "visibility"
    assert f"$(POD_IP):{answers}" in container["args"]
    assert [word for word in container["args"] if word.startswith("--api")] == (
        ["--api=phalanx"] if folder is NUMBERS else []
    )
    assert made["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": answers}]
    theirs = one("scheduler.yaml", "Deployment")["spec"]["template"]["spec"]
    assert pod["spec"]["securityContext"] == theirs["securityContext"]
    assert container["securityContext"] == theirs["containers"][0]["securityContext"]
    assert pod["spec"]["serviceAccountName"] != theirs["serviceAccountName"]


def test_users_may_read_numbers_and_nothing_else() -> None:
    """The roles of users give `get` of the two subresources, and every user has the one of queues."""
    made = {(each["kind"], each["metadata"]["name"]): each for each in objects(NUMBERS / "roles.yaml")}
    assert granted([NUMBERS / "roles.yaml"]) == {
        ("get", APIS["phalanx"].group, f"{resource.plural}/{sub.name}")
        for resource in APIS["phalanx"].resources
        for sub in resource.subresources
    }
    everyone = made["ClusterRoleBinding", "phalanx-queue-numbers"]
    assert everyone["roleRef"]["name"] == "phalanx-queue-numbers"
    assert [subject["name"] for subject in everyone["subjects"]] == ["system:authenticated"]


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_reads_what_it_follows_and_writes_nothing() -> None:
    """Output of pods and Secrets are not among its rights: those are read with the credentials of a viewer."""
    wanted = {(verb, kind.group, kind.plural) for kind in (*REQUIRED, *LOOKED_UP) for verb in ("list", "watch")}
    wanted |= {("get", "coordination.k8s.io", "leases"), ("get", "", "configmaps")}
    assert granted([PAGE / "rbac.yaml"]) == wanted
    named = [tuple(rule["resourceNames"]) for rule in rules([PAGE / "rbac.yaml"]) if "resourceNames" in rule]
    assert named == [(LEASE,), (USAGE,)]
    assert granted([PAGE_BEHIND_PROXY / "rbac.yaml"]) == {("impersonate", "", one) for one in ("users", "groups")}


def test_browsers_find_the_page_and_it_is_guarded_as_the_scheduler_is() -> None:
    made = {each["kind"]: each for each in objects(PAGE / "dashboard.yaml")}
    pod = made["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (port,) = made["Service"]["spec"]["ports"]
    assert made["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
    assert made["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": ports["https"]}]
    assert f"$(POD_IP):{ports[port['targetPort']]}" in container["args"]
    assert f"--host={made['Service']['metadata']['name']}.phalanx-system.svc" in container["args"]
    theirs = one("scheduler.yaml", "Deployment")["spec"]["template"]["spec"]
    assert pod["spec"]["securityContext"] == theirs["securityContext"]
    assert container["securityContext"] == theirs["containers"][0]["securityContext"]
    assert pod["spec"]["serviceAccountName"] == objects(PAGE / "rbac.yaml")[0]["metadata"]["name"]


@pytest.mark.slow
def test_the_arguments_of_the_page_are_options_of_the_command() -> None:
    """An invalid one would be refused with another error than the missing object."""
    (deployment,) = (each for each in objects(PAGE / "dashboard.yaml") if each["kind"] == "Deployment")
    (patch,) = yaml.safe_load((PAGE_BEHIND_PROXY / "kustomization.yaml").read_text())["patches"]
    more = [each["value"] for each in yaml.safe_load(patch["patch"]) if each["path"].endswith("/args/-")]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words = [word.replace("$(POD_IP)", "127.0.0.1") for word in (*container["args"], *more)]
    done = phalanx(*words, "--kubeconfig", "/nowhere/kubeconfig")
    assert "there is no file /nowhere/kubeconfig" in done.stderr or "libraries of the page" in done.stderr, done.stderr


# --- the rest --------------------------------------------------------------------------------------------------------


def one(name: str, kind: str) -> Any:
    return next(each for each in objects(DEPLOY / "base" / name) if each["kind"] == kind)


def test_everything_selects_the_pods_of_the_scheduler() -> None:
    template = one("scheduler.yaml", "Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("scheduler.yaml", "Deployment")["spec"]["selector"]["matchLabels"],
        one("disruption.yaml", "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("network.yaml", "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one("metrics.yaml", "Service")["spec"]["selector"],
    ]
    assert all(selector and selector.items() <= template.items() for selector in selectors)


def test_every_file_is_part_of_the_base() -> None:
    listed = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text())["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(path.name for path in (DEPLOY / "base").iterdir())


def test_the_account_of_the_policies_is_that_of_the_deployment() -> None:
    pod = one("scheduler.yaml", "Deployment")["spec"]["template"]["spec"]
    user = f"system:serviceaccount:phalanx-system:{pod['serviceAccountName']}"
    policies = [each for each in objects(DEPLOY / "base" / "narrowing.yaml") if each["kind"].endswith("Policy")]
    assert all(user in policy["spec"]["matchConditions"][0]["expression"] for policy in policies)


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def test_the_image_is_of_this_version() -> None:
    (image,) = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text())["images"]
    assert image == {"name": "phalanx", "newTag": version()}


# --- the image -------------------------------------------------------------------------------------------------------

STEPS = {"ARG", "FROM", "WORKDIR", "RUN", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}


def containerfile() -> list[tuple[str, str]]:
    """(instruction, its words), with continued lines joined."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_containerfile_builds_on_the_pinned_python_and_runs_as_nobody() -> None:
    steps = containerfile()
    assert {word for word, _ in steps} <= STEPS
    bases = [rest.split()[0] for word, rest in steps if word == "FROM"]
    assert bases == ["${PYTHON}"] * 2  # one base, by tag or by digest
    assert [rest for word, rest in steps if word == "ARG"] == ["PYTHON=docker.io/library/python:3.11-slim"]
    last = dict(steps)
    pod = one("scheduler.yaml", "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert last["USER"] == f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert last["ENTRYPOINT"] == '["phalanx"]'


def test_what_it_copies_is_there_and_is_not_ignored() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for word, rest in containerfile():
        if word == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert source in allowed, f"{source} is not let through by .dockerignore"
