"""Role-based access control: compute the rights that a user has from roles and their bindings, and authorize requests
by them.

A ClusterRoleBinding grants a ClusterRole in all namespaces, and a RoleBinding grants a Role or ClusterRole in its own
namespace. A user has the union of these rights; no rule denies a right. A rule without `resourceNames` applies to
objects of every name. A rule with names applies only if the request's path (or a field selector by name) names the
object.

Users cannot grant rights that they do not have. A user who writes a role needs each of its rights, or the verb
`escalate`. A user who binds a role needs each of its rights, or the verb `bind`.

Sources: pkg/apis/rbac/v1/evaluation_helpers.go, pkg/registry/rbac (policybased), pkg/registry/rbac/validation.

Requests are authorized in this way: Members of `system:masters` may do everything. Every client may read the server's
version and health. Authenticated users may read discovery and review their own access. All other rights come from
roles. The messages of refusals are those of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol

from phalanx.embedded.apimachinery.expressions.authorizer import AuthorizationQuestion, Rights
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError, forbidden, not_found

GROUP = "rbac.authorization.k8s.io"
ALL = "*"
_ACCOUNT = "system:serviceaccount"
_KEPT = 4096  # the number of remembered rule sets, each for one user in one namespace
# rules are remembered only for shorter names: a namespace cannot have a longer name, but a user can
_LONGEST_NAMESPACE, _LONGEST_USER = 63, 1024

Rule = Mapping[str, Any]


class AccessRequest(NamedTuple):
    """The attributes of a request that RBAC rules are compared with. `resource`: the plural name, with a subresource
    after a slash. `name`: the name of the object; "" for no particular object."""

    verb: str
    group: str
    resource: str
    name: str = ""


class RbacObjects(Protocol):
    """Read access to the stored objects that define rights: roles and bindings."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None: ...
    def list(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]: ...


class Grants:
    """The rules that apply to each user. They are remembered until `forget` is called, which happens when a role or a
    binding changes."""

    def __init__(self, objects: RbacObjects) -> None:
        self._objects = objects
        self._known: dict[tuple[User, str], tuple[Rule, ...]] = {}

    def forget(self) -> None:
        self._known.clear()

    def rules(self, user: User, namespace: str = "") -> tuple[Rule, ...]:
        """Return the user's rules in the namespace. If `namespace` is "", return the rules for cluster-scoped kinds and
        for requests about all namespaces."""
        known = self._known.get((user, namespace))
        if known is None:
            known = tuple(rule for rule, _ in self._found(user, namespace))
            self._remember(user, namespace, known)
        return known

    def _remember(self, user: User, namespace: str, rules: tuple[Rule, ...]) -> None:
        """Remember the rules of a user. A request may name any namespace and any user, so the memory for these rules is
        limited. Without limits, 126,000 requests with long names took half a gigabyte."""
        if len(namespace) > _LONGEST_NAMESPACE or len(user.name) + sum(map(len, user.groups)) > _LONGEST_USER:
            return
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[user, namespace] = rules

    def role(self, reference: Mapping[str, str], namespace: str) -> Object | None:
        if reference["kind"] == "ClusterRole":
            return self._objects.get(GROUP, "clusterroles", "", reference["name"])
        return self._objects.get(GROUP, "roles", namespace, reference["name"])

    def source(self, user: User, namespace: str, fits: Callable[[Rule], bool]) -> str:
        """Find the first rule of the user for which `fits` returns True. Describe the binding and the role from which
        the user has this rule; "" if there is no such rule."""
        for rule, binding in self._found(user, namespace):
            if fits(rule):
                return _described(binding, user)
        return ""

    def missing(self, user: User, namespace: str) -> str:
        """Return an error message about roles that do not exist although bindings of the user name them; "" if there
        are none."""
        found = []
        for binding, space in self._bindings(user, namespace):
            kind, name = binding["roleRef"]["kind"].lower(), binding["roleRef"]["name"]
            if self.role(binding["roleRef"], space) is None:
                found.append(f'{kind}.{GROUP} "{name}" not found')
        return found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]" if found else ""

    def _found(self, user: User, namespace: str) -> Iterator[tuple[Rule, Object]]:
        """Yield the user's rules, each with the binding that gives it."""
        for binding, space in self._bindings(user, namespace):
            role = self.role(binding["roleRef"], space)
            yield from ((rule, binding) for rule in (role or {}).get("rules") or ())

    def _bindings(self, user: User, namespace: str) -> Iterator[tuple[Object, str]]:
        """Yield the bindings of the user, each with its namespace."""
        spaces = [("clusterrolebindings", "")] + ([("rolebindings", namespace)] if namespace else [])
        for plural, space in spaces:
            for binding in self._objects.list(GROUP, plural, space):
                if any(_means(subject, user, space) for subject in binding.get("subjects") or ()):
                    yield binding, space


def _described(binding: Object, user: User) -> str:
    """Describe a binding in the words of kube-apiserver, which gives bindings as reasons why a request is allowed."""
    meta, role = binding["metadata"], binding["roleRef"]
    space = meta.get("namespace", "")
    kind, name = ("RoleBinding", f"{meta['name']}/{space}") if space else ("ClusterRoleBinding", meta["name"])
    subject = next(one for one in binding["subjects"] if _means(one, user, space))
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or space}"
    return f'{kind} "{name}" of {role["kind"]} "{role["name"]}" to {subject["kind"]} "{who}"'


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
    """Return True if the rule allows `verb` on `path`. A URL with an asterisk at its end allows every path that begins
    with the characters before the asterisk."""
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
    """Return a rule as kube-apiserver prints it: `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`."""
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


MASTERS, AUTHENTICATED, UNAUTHENTICATED = "system:masters", "system:authenticated", "system:unauthenticated"
_PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
# Paths that every authenticated user may read: discovery (the role system:discovery).
_DISCOVERY = ("/api", "/apis", "/openapi")
# The kinds of reviews that every user may create to query their own rights (the role system:basic-user).
_OF_SELF = frozenset({"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"})


class Authorizer:
    """Decides whether users may make requests. `objects`: the stored roles and bindings."""

    def __init__(self, objects: RbacObjects) -> None:
        self.grants = Grants(objects)

    def path(self, user: User, verb: str, path: str) -> None:
        """Check that `user` may do `verb` (a lower-case HTTP method) on a path that names no resource. Raises
        `StatusError` 403."""
        known = AUTHENTICATED in user.groups
        if MASTERS in user.groups or (path in _PUBLIC_PATHS and (known or UNAUTHENTICATED in user.groups)):
            return
        if known and verb == "get" and any(path == one or path.startswith(one + "/") for one in _DISCOVERY):
            return
        if any(allows_path(rule, verb, path) for rule in self.grants.rules(user)):
            return
        message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
        raise StatusError(403, "Forbidden", message, details={})

    def resource(self, user: User, asked: AccessRequest, namespace: str) -> None:
        """Check that `user` may make the request `asked` in the namespace; "" stands for the cluster scope. Raises
        `StatusError` 403."""
        if self.may(user, asked, namespace):
            return
        plural = asked.resource.partition("/")[0]
        where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        what = f'resource "{asked.resource}" in API group "{asked.group}" {where}'
        why = f'User "{user.name}" cannot {asked.verb} {what}'
        if missing := self.grants.missing(user, namespace):
            why += f": RBAC: {missing}"
        raise forbidden(asked.group, plural, asked.name, why)

    def may(self, user: User, asked: AccessRequest, namespace: str) -> bool:
        if MASTERS in user.groups:
            return True
        if asked.verb == "create" and asked.resource in _OF_SELF and AUTHENTICATED in user.groups:
            return True
        return any(allows(rule, asked) for rule in self.grants.rules(user, namespace))

    def rights(self, user: User) -> Rights:
        """Return a function that expressions of admission policies call to query the user's rights."""
        return partial(self._answer, user)

    def _answer(self, user: User, question: AuthorizationQuestion) -> bool:
        if not question.path:
            asked = AccessRequest(question.verb, question.group, question.resource, question.name)
            return self.may(user, asked, question.namespace)
        try:
            self.path(user, question.verb, question.path)
        except StatusError:
            return False
        return True

    def guard(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        """Refuse a user who writes or binds a role with rights that the user does not have. Raises `StatusError` 403,
        404."""
        if resource.group != GROUP or MASTERS in user.groups:
            return
        if resource.plural.endswith("bindings"):
            self._guard_binding(resource, obj, old, user)
        elif old is None or old.get("rules") != obj.get("rules"):
            self._guard_rules(resource, obj, obj, user, AccessRequest("escalate", GROUP, resource.plural, _name(obj)))

    def _guard_binding(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        if old is not None and old.get("subjects") == obj.get("subjects"):
            return
        reference = obj["roleRef"]
        plural = f"{reference['kind'].lower()}s"
        role = self.grants.role(reference, obj["metadata"].get("namespace", ""))
        if role is None:
            missing = not_found(GROUP, plural, reference["name"])
            details = {**(missing.details or {}), "kind": resource.plural}
            raise StatusError(missing.code, missing.reason, missing.message, details=details)
        self._guard_rules(resource, obj, role, user, AccessRequest("bind", GROUP, plural, reference["name"]))

    def _guard_rules(self, resource: Resource, obj: Object, role: Object, user: User, instead: AccessRequest) -> None:
        """Refuse rules of `role` that grant rights which the user does not have. `instead`: a right that allows the
        user to write such rules anyway."""
        namespace = obj["metadata"].get("namespace", "")
        if self.may(user, instead, namespace):
            return
        missing = beyond(self.grants.rules(user, namespace), role.get("rules") or ())
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(shown(rule) for rule in missing)
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{listed}"
            )
            raise forbidden(resource.group, resource.plural, _name(obj), why)


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))
