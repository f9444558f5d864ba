"""Conversations about users: roles and bindings, reviews, tokens; and about limits, quotas and pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.embedded.beside.conversation import CORE, JSON_PATCH, REMOVED, STRATEGIC, TABLE, Talk, changed

Json = Any

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ROLES, _BINDINGS = f"{_RBAC}/namespaces/${{ns}}/roles", f"{_RBAC}/namespaces/${{ns}}/rolebindings"
_GROUP = "rbac.authorization.k8s.io"
_ANN = {"Impersonate-User": "ann"}
_ROBOT = {"Impersonate-User": "system:serviceaccount:${ns}:robot"}

_RULES: tuple[Json, ...] = (
    {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["only"], "verbs": ["get", "update", "patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs", "jobs/status"], "verbs": ["*"]},
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": [_GROUP], "resources": ["roles", "rolebindings"], "verbs": ["create", "get", "patch", "update"]},
    {"apiGroups": [_GROUP], "resources": ["roles"], "verbs": ["escalate", "bind", "create"]},
    {"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]},
    {"apiGroups": [""], "resources": ["*/status"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["serviceaccounts/token", "pods/eviction"], "verbs": ["create"]},
)
_WRONG_RULES: tuple[Json, ...] = (
    {"apiGroups": [""], "resources": ["pods"]},
    {"resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "verbs": ["get"]},
    {"nonResourceURLs": ["/x"], "verbs": ["get"]},
    {"nonResourceURLs": ["/x"], "apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"verbs": []},
    {"apiGroups": "", "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "odd": 1},
)
_SUBJECTS: tuple[Json, ...] = (
    {"kind": "User", "name": "ann", "apiGroup": _GROUP},
    {"kind": "ServiceAccount", "name": "robot", "namespace": "${ns}"},
    {"kind": "Group", "name": "system:authenticated", "apiGroup": _GROUP},
    {"kind": "User", "name": "ann"},
    {"kind": "ServiceAccount", "name": "robot"},
    {"kind": "ServiceAccount", "name": "A_b", "namespace": "x"},
    {"kind": "Odd", "name": "x"},
    {"kind": "User", "name": "", "apiGroup": _GROUP},
    {"kind": "User", "name": "ann", "apiGroup": "odd"},
    {"kind": "Group", "name": "g", "namespace": "${ns}", "apiGroup": _GROUP},
)
_REFS: tuple[Json, ...] = (
    {"apiGroup": _GROUP, "kind": "Role", "name": "r"},
    {"apiGroup": _GROUP, "kind": "Role", "name": "none"},
    {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "view"},
    {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "none"},
    {"apiGroup": _GROUP, "kind": "Odd", "name": "r"},
    {"apiGroup": "odd", "kind": "Role", "name": "r"},
    {"kind": "Role", "name": "r"},
    {"apiGroup": _GROUP, "kind": "Role", "name": ""},
)
_ATTRIBUTES: tuple[Json, ...] = (
    {"namespace": "${ns}", "verb": "get", "resource": "pods"},
    {"namespace": "${ns}", "verb": "update", "resource": "configmaps", "name": "only"},
    {"namespace": "${ns}", "verb": "delete", "group": "batch", "resource": "jobs"},
    {"verb": "list", "resource": "nodes"},
    {"namespace": "${ns}", "verb": "patch", "resource": "pods", "subresource": "status"},
    {"namespace": "${ns}", "verb": "list", "resource": "pods", "labelSelector": {"rawSelector": "a=b"}},
    {
        "namespace": "${ns}",
        "verb": "list",
        "resource": "pods",
        "fieldSelector": {"requirements": [{"key": "a", "operator": "Odd"}]},
    },
    {},
)


def rights(talk: Talk) -> None:
    random = talk.random
    first = random.sample(_RULES, random.choice((1, 2, 3)))
    role = {"apiVersion": f"{_GROUP}/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": first}
    talk.post(_ROLES, {**role, "rules": [random.choice(_WRONG_RULES)]})
    made = talk.post(_ROLES, role)
    binding = {"metadata": {"name": "b"}, "roleRef": _REFS[0], "subjects": list(_SUBJECTS[:2])}
    bound = talk.post(_BINDINGS, binding)
    talk.get(f"{CORE}/configmaps/none", headers=_ANN)
    cluster = f"{_RBAC}/clusterroles"
    talk.cleanup.append(f"{cluster}/c-${{id}}")
    aggregated = {"metadata": {"name": "c-${id}"}, "rules": [random.choice(_RULES)]}
    steps = [
        lambda: talk.post(_ROLES, {"metadata": {"name": "mine"}, "rules": [random.choice(_RULES)]}, headers=_ANN),
        lambda: talk.post(
            _BINDINGS, {**binding, "metadata": {"name": "mine"}, "roleRef": random.choice(_REFS)}, headers=_ANN
        ),
        lambda: talk.post(_BINDINGS, {**binding, "metadata": {"name": "c"}, "roleRef": random.choice(_REFS)}),
        lambda: talk.post(_BINDINGS, {**binding, "metadata": {"name": "d"}, "subjects": [random.choice(_SUBJECTS)]}),
        lambda: talk.edit(f"{_BINDINGS}/b", bound, (("roleRef",), random.choice(_REFS))),
        lambda: talk.edit(f"{_BINDINGS}/b", bound, (("subjects",), random.sample(_SUBJECTS, 2))),
        lambda: talk.edit(f"{_ROLES}/r", made, (("rules",), [random.choice((*_RULES, *_WRONG_RULES))])),
        lambda: talk.patch(
            f"{_ROLES}/r",
            {"rules": [random.choice((*_RULES, *_WRONG_RULES))]},
            random.choice((STRATEGIC, "application/merge-patch+json")),
        ),
        lambda: talk.patch(
            f"{_ROLES}/r", [{"op": "add", "path": "/rules/-", "value": random.choice(_WRONG_RULES)}], JSON_PATCH
        ),
        lambda: talk.patch(
            f"{_ROLES}/r", [{"op": "add", "path": "/rules/0/verbs", "value": random.choice(("x", 1))}], JSON_PATCH
        ),
        lambda: talk.patch(f"{_ROLES}/r", {"rules": [random.choice(_RULES)]}, headers=_ANN),
        lambda: talk.post(cluster, aggregated),
        lambda: talk.post(cluster, aggregated, headers=_ANN),
        lambda: talk.post(
            cluster, {**aggregated, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "${ns}"}}]}}
        ),
        lambda: talk.get(
            f"{CORE}/{random.choice(('configmaps', 'configmaps/only', 'secrets', 'pods', 'pods/x/log'))}",
            headers=random.choice((_ANN, _ROBOT)),
        ),
        lambda: talk.post(f"{CORE}/configmaps", {"metadata": {"name": "only"}}, headers=random.choice((_ANN, _ROBOT))),
        lambda: talk.ask(
            random.choice(("PUT", "PATCH", "DELETE")),
            f"{CORE}/configmaps/only",
            {"metadata": {"name": "only"}},
            "application/json",
            headers=_ANN,
        ),
        lambda: talk.get("/api/v1/nodes", headers={**_ANN, "Impersonate-Group": "system:masters"}),
        lambda: talk.get(f"{CORE}/pods", headers={"Impersonate-User": "ann", "Impersonate-Extra-Scopes": "x"}),
        lambda: talk.get(_ROLES, TABLE),
        lambda: talk.get(_BINDINGS, random.choice((TABLE, f"{TABLE};includeObject=Object"))),
    ]
    for step in random.sample(steps, random.choice((7, 9, 11))):
        step()
    talk.delete(f"{_BINDINGS}/b")


def reviews(talk: Talk) -> None:
    """Access reviews, tokens of service accounts and their reviews."""
    random = talk.random
    accounts = f"{CORE}/serviceaccounts"
    talk.post(_ROLES, {"metadata": {"name": "r"}, "rules": random.sample(_RULES, 2)})
    talk.post(_BINDINGS, {"metadata": {"name": "b"}, "roleRef": _REFS[0], "subjects": list(_SUBJECTS[:2])})
    account = talk.post(accounts, {"metadata": {"name": "robot"}})
    steps = _review_steps(talk, accounts, account)
    for step in random.sample(steps, random.choice((8, 10, 12))):
        step()
    talk.get(accounts, TABLE)


def _review_steps(talk: Talk, accounts: str, account: int) -> list[Callable[[], int]]:
    random, review = talk.random, "/apis/authorization.k8s.io/v1"
    spec = {"user": "ann", "groups": random.choice(([], ["g"], ["system:masters"]))}
    request = {
        "spec": {
            "audiences": random.choice(([], ["a"], [""])),
            "expirationSeconds": random.choice((600, 599, 2**33, -1)),
        }
    }
    return [
        lambda: talk.post(
            f"{review}/subjectaccessreviews", {"spec": {**spec, "resourceAttributes": random.choice(_ATTRIBUTES)}}
        ),
        lambda: talk.post(
            f"{review}/subjectaccessreviews", {"spec": {"resourceAttributes": random.choice(_ATTRIBUTES)}}
        ),
        lambda: talk.post(
            f"{review}/subjectaccessreviews",
            {"spec": {**spec, "nonResourceAttributes": {"path": random.choice(("/healthz", "/x", "")), "verb": "get"}}},
        ),
        lambda: talk.post(
            f"{review}/subjectaccessreviews", {"spec": {**spec, "nonResourceAttributes": {}, "resourceAttributes": {}}}
        ),
        lambda: talk.post(f"{review}/subjectaccessreviews", {"metadata": {"name": "x"}, "spec": spec}),
        lambda: talk.post(
            f"{review}/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": random.choice(_ATTRIBUTES)}},
            headers=random.choice((_ANN, {})),
        ),
        lambda: talk.post(f"{review}/selfsubjectaccessreviews", {"spec": {}}),
        lambda: talk.post(
            f"{review}/namespaces/${{ns}}/localsubjectaccessreviews",
            {"spec": {**spec, "resourceAttributes": random.choice(_ATTRIBUTES)}},
        ),
        lambda: talk.post(
            f"{review}/selfsubjectrulesreviews",
            {"spec": {"namespace": random.choice(("${ns}", "", "none"))}},
            headers=random.choice((_ANN, _ROBOT)),
        ),
        lambda: talk.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            random.choice(({}, {"spec": 1}, {"metadata": {"name": "x"}})),
            headers=random.choice((_ANN, _ROBOT, {})),
        ),
        lambda: talk.post(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"spec": {"token": random.choice(("x", "", "a.b.c")), "audiences": ["a"]}},
        ),
        lambda: talk.get(f"{review}/{random.choice(('subjectaccessreviews', 'selfsubjectrulesreviews'))}"),
        lambda: talk.post(f"{accounts}/robot/token?dryRun=All", request),
        lambda: talk.post(f"{accounts}/none/token", request),
        lambda: talk.post(f"{accounts}/robot/token", {"spec": {"boundObjectRef": random.choice(_BOUND)}}),
        lambda: talk.get(f"{accounts}/robot/token"),
        lambda: talk.edit(f"{accounts}/robot", account, (("secrets",), [{"name": "a"}, {"name": "a"}]), managed=True),
        lambda: talk.patch(
            f"{accounts}/robot", {"imagePullSecrets": [{"name": "q"}], "automountServiceAccountToken": False}, STRATEGIC
        ),
        lambda: talk.post(f"{CORE}/secrets", random.choice(_SECRETS)),
    ]


_BOUND: tuple[Json, ...] = (
    {"kind": "Pod", "apiVersion": "v1", "name": "none"},
    {"kind": "Secret", "apiVersion": "v1", "name": "none", "uid": "u"},
    {"kind": "Odd", "apiVersion": "v1", "name": "x"},
    {"kind": "Node", "apiVersion": "v1", "name": "none"},
    {},
)
_SECRETS: tuple[Json, ...] = (
    {"metadata": {"name": "s"}, "type": "kubernetes.io/service-account-token"},
    {
        "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    },
    {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}},
    {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "YQ=="}},
    {"metadata": {"name": "s"}, "type": "kubernetes.io/basic-auth"},
    {"metadata": {"name": "s"}, "type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": "x"}},
    {"metadata": {"name": "s"}, "data": {"a b": "YQ=="}},
    {"metadata": {"name": "s"}, "data": {"a": "!"}},
    {"metadata": {"name": "s"}, "stringData": {"a": 1}},
    {"metadata": {"name": "s"}, "immutable": True, "stringData": {"a": "b"}},
)

_LIMITS: tuple[Json, ...] = (
    {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}},
    {"type": "Container", "min": {"memory": "64Mi"}, "maxLimitRequestRatio": {"cpu": "2"}},
    {"type": "Pod", "max": {"cpu": "1", "memory": "1Gi"}},
    {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
    {"type": "Odd"},
    {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}},
    {"type": "Pod", "default": {"cpu": "1"}},
    {"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}},
    {"type": "PersistentVolumeClaim"},
    {"type": "Container", "max": {"odd": "1"}},
    {"type": "Container", "default": {"cpu": "3"}, "max": {"cpu": "2"}},
)
_HARD: tuple[Json, ...] = (
    {"pods": "1"},
    {"configmaps": "1", "count/secrets": "0"},
    {"requests.cpu": "1", "limits.memory": "1Gi"},
    {"count/jobs.batch": "1"},
    {"pods": "-1"},
    {"odd": "1"},
    {"pods": "x"},
    {"a.example/gpu": "1"},
    {"requests.a.example/gpu": "1", "services.nodeports": "0"},
)


def limits(talk: Talk) -> None:
    """Limit ranges, quotas and what they refuse; lists in pages."""
    random = talk.random
    ranges, quotas, maps = f"{CORE}/limitranges", f"{CORE}/resourcequotas", f"{CORE}/configmaps"
    talk.post(ranges, {"metadata": {"name": "r"}, "spec": {"limits": random.sample(_LIMITS, random.choice((1, 2)))}})
    talk.post(ranges, {"metadata": {"name": "s"}, "spec": {"limits": [random.choice(_LIMITS[:4])]}})
    hard = random.choice(_HARD)
    extra = random.choice(({}, {}, {"scopes": ["Terminating"]}, {"scopes": ["Odd"]}, {"scopes": ["BestEffort"]}))
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard, **extra}}
    talk.post(f"{quotas}?dryRun=All", quota)
    requests = random.choice(({"cpu": "500m"}, {"cpu": "3"}, {"memory": "1Mi"}, {}))
    most = random.choice(({}, {"cpu": "1"}, {"cpu": "4", "memory": "2Gi"}))
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": most}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": random.choice(("1Mi", "1Gi", "5Gi"))}},
    }
    pages = random.choice((1, 2, 3))
    for number in range(4):
        talk.post(maps, {"metadata": {"name": f"m{number}", "labels": {"n": str(number % 2)}}})
    page = talk.get(f"{maps}?limit={pages}")
    steps = [
        lambda: talk.post(f"{CORE}/pods", pod),
        lambda: talk.post(
            f"{CORE}/pods",
            changed(pod, [(("metadata", "name"), "o"), (("spec", "containers", 0, "resources"), REMOVED)]),
        ),
        lambda: talk.post(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "v"}, "spec": claim}),
        lambda: talk.get(f"{maps}?limit={pages}&continue=${{continue{page}}}"),
        lambda: talk.get(f"{maps}?limit=1&continue=${{continue{page}}}", TABLE),
        lambda: talk.get(f"{maps}?limit=1&labelSelector=n%3D1"),
        lambda: talk.get(f"{maps}?limit=2&fieldSelector=metadata.name!%3Dm0"),
        lambda: talk.get(f"{maps}?limit=1&resourceVersion=0"),
        lambda: talk.get(f"{maps}?limit=1&resourceVersion=${{rv{page}}}&resourceVersionMatch=Exact"),
        lambda: talk.get(f"{maps}?limit=1&resourceVersion=${{rv{page}}}&continue=${{continue{page}}}"),
        lambda: talk.get(
            f"{maps}?labelSelector={random.choice(('n', '!n', 'n%20in%20(0)', 'n%20notin%20(0,1)', 'n>0', 'n!%3D1'))}"
        ),
        lambda: talk.patch(
            f"{ranges}/r",
            {"spec": {"limits": [random.choice(_LIMITS)]}},
            random.choice((STRATEGIC, "application/merge-patch+json")),
        ),
        lambda: talk.get(ranges, TABLE),
        lambda: talk.post(f"{quotas}?dryRun=All", {"metadata": {"name": "z"}, "spec": {"hard": random.choice(_HARD)}}),
        lambda: talk.post(
            f"{quotas}?dryRun=All",
            {
                "metadata": {"name": "z"},
                "spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [random.choice(_SCOPES)]}},
            },
        ),
        lambda: talk.delete(f"{maps}?labelSelector=n%3D0&dryRun=All"),
        lambda: talk.watch(maps, page, "labelSelector=n%3D1"),
    ]
    for step in random.sample(steps, random.choice((6, 8, 10))):
        step()
    talk.delete(maps)


_SCOPES: tuple[Json, ...] = (
    {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
    {"scopeName": "PriorityClass", "operator": "In"},
    {"scopeName": "PriorityClass", "operator": "Odd"},
    {"scopeName": "BestEffort", "operator": "In", "values": ["x"]},
    {"scopeName": "Odd", "operator": "Exists"},
    {"scopeName": "NotBestEffort", "operator": "Exists"},
)
