"""Role-based access control: compute the rights that bound roles give a user.

A ClusterRoleBinding gives a ClusterRole everywhere, a RoleBinding gives a Role or ClusterRole in its namespace. A user
has the union of these rights; no rule denies. A rule without `resourceNames` applies to every name. A rule with names
applies only if the request's path (or a field selector by name) names the object.

Users cannot grant rights that they do not have: writing a role needs each of its rights (or the verb `escalate`), and
so does binding a role (or the verb `bind`).

Sources: pkg/apis/rbac/v1/evaluation_helpers.go, pkg/registry/rbac (policybased), pkg/registry/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, Protocol

from phalanx.embedded.apimachinery.meta.resource import Object, User

GROUP = "rbac.authorization.k8s.io"
ALL = "*"
_ACCOUNT = "system:serviceaccount"
_KEPT = 4096  # answers for a user in a namespace
_LONGEST_NAMESPACE, _LONGEST_USER = 63, 1024  # longer names are no namespace's; users have no bound

Rule = Mapping[str, Any]


class AccessRequest(NamedTuple):
    """A request whose right is checked. `resource`: the plural name, with a subresource after a slash. `name`: the name
    of the object; "": no object, or any."""

    verb: str
    group: str
    resource: str
    name: str = ""


class RbacObjects(Protocol):
    """The stored objects that define rights: roles and bindings."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None: ...
    def list(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]: ...


class Grants:
    """The rules that hold for a user, remembered until `forget` is called: when a role or a binding has changed."""

    def __init__(self, objects: RbacObjects) -> None:
        self._objects = objects
        self._known: dict[tuple[User, str], tuple[Rule, ...]] = {}

    def forget(self) -> None:
        self._known.clear()

    def rules(self, user: User, namespace: str = "") -> tuple[Rule, ...]:
        """Return the user's rules in the namespace; "" for cluster-scoped kinds, or for all namespaces at once."""
        known = self._known.get((user, namespace))
        if known is None:
            known = tuple(self._found(user, namespace))
            self._remember(user, namespace, known)
        return known

    def _remember(self, user: User, namespace: str, rules: tuple[Rule, ...]) -> None:
        """Keep the answer. A request may name any namespace and any user, so what is kept has bounds: 126,000 requests
        with long names took half a gigabyte."""
        if len(namespace) > _LONGEST_NAMESPACE or len(user.name) + sum(map(len, user.groups)) > _LONGEST_USER:
            return
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[user, namespace] = rules

    def role(self, reference: Mapping[str, str], namespace: str) -> Object | None:
        if reference["kind"] == "ClusterRole":
            return self._objects.get(GROUP, "clusterroles", "", reference["name"])
        return self._objects.get(GROUP, "roles", namespace, reference["name"])

    def _found(self, user: User, namespace: str) -> Iterator[Rule]:
        spaces = [("clusterrolebindings", "")] + ([("rolebindings", namespace)] if namespace else [])
        for plural, space in spaces:
            for binding in self._objects.list(GROUP, plural, space):
                if any(_means(subject, user, space) for subject in binding.get("subjects") or ()):
                    role = self.role(binding["roleRef"], space)
                    yield from (role or {}).get("rules") or ()


def _means(subject: Mapping[str, str], user: User, namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return subject["name"] == user.name
        case "Group":
            return subject["name"] in user.groups
        case _:
            return f"{_ACCOUNT}:{subject.get('namespace') or namespace}:{subject['name']}" == user.name


def allows(rule: Rule, asked: AccessRequest) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs"), asked.verb)
        and _has(rule.get("apiGroups"), asked.group)
        and _has_resource(rule.get("resources"), asked.resource)
        and (not names or asked.name in names)
    )


def allows_path(rule: Rule, verb: str, path: str) -> bool:
    """Return True if the rule allows `verb` on `path`. A URL that ends with an asterisk allows all paths with this
    beginning."""
    urls = rule.get("nonResourceURLs") or ()
    matches = any(url in (ALL, path) or (url.endswith(ALL) and path.startswith(url[:-1])) for url in urls)
    return matches and _has(rule.get("verbs"), verb)


def _has(said: Sequence[str] | None, wanted: str) -> bool:
    return said is not None and (wanted in said or ALL in said)


def _has_resource(said: Sequence[str] | None, wanted: str) -> bool:
    subresource = wanted.partition("/")[2]
    return _has(said, wanted) or (subresource != "" and _has(said, f"*/{subresource}"))


def beyond(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the parts of the wanted rules that the held rules do not cover."""
    found: list[Rule] = []
    for rule in wanted:
        for asked in _pieces(rule):
            if not any(allows(one, asked) for one in held):
                found.append(_as_rule(asked))
        for verb, url in product(rule.get("verbs") or (), rule.get("nonResourceURLs") or ()):
            if not any(allows_path(one, verb, url) for one in held):
                found.append({"verbs": [verb], "nonResourceURLs": [url]})
    return found


def _pieces(rule: Rule) -> Iterator[AccessRequest]:
    parts = [rule.get(key) or () for key in ("verbs", "apiGroups", "resources")]
    return (AccessRequest(*piece) for piece in product(*parts, rule.get("resourceNames") or ("",)))


def _as_rule(asked: AccessRequest) -> Rule:
    rule = {"verbs": [asked.verb], "apiGroups": [asked.group], "resources": [asked.resource]}
    return rule | ({"resourceNames": [asked.name]} if asked.name else {})


def shown(rule: Rule) -> str:
    """Return a rule as the real server prints it: `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`."""
    names = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    )
    parts = (f"{go}:[{_quoted(rule[key])}]" for go, key in names if rule.get(key))
    return "{" + ", ".join(parts) + "}"


def _quoted(words: Iterable[str]) -> str:
    return " ".join(f'"{one}"' for one in words)
