"""The strategies of roles and their bindings. Source: pkg/apis/rbac/validation and v1 defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import Cause, invalid_value, not_supported, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(ResourceStrategy):
    """The strategy of `roles` and `clusterroles`. If a role has no rules, its field `rules` is shown as null."""

    def default(self, obj: Object) -> None:
        obj["rules"] = obj.get("rules") or None

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        for index, rule in enumerate(obj.get("rules") or ()):
            _rule(found, rule, f"rules[{index}]", namespaced=obj.get("kind") == "Role")
        return found


def _rule(found: Found, rule: Mapping[str, object], path: str, *, namespaced: bool) -> None:
    urls = rule.get("nonResourceURLs") or []
    if not rule.get("verbs"):
        found.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            found.append(invalid_value(f"{path}.nonResourceURLs", urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(invalid_value(f"{path}.nonResourceURLs", urls, text))
        return
    if not rule.get("apiGroups"):
        found.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


class RoleBindingStrategy(ResourceStrategy):
    """The strategy of `rolebindings` and `clusterrolebindings`."""

    def default(self, obj: Object) -> None:
        obj["roleRef"].setdefault("apiGroup", GROUP)
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", GROUP)

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        role, namespaced = obj["roleRef"], obj.get("kind") == "RoleBinding"
        kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
        if role.get("apiGroup") != GROUP:
            found.append(not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,)))
        if role.get("kind") not in kinds:
            found.append(not_supported("roleRef.kind", role.get("kind", ""), kinds))
        if not role.get("name"):
            found.append(required("roleRef.name"))
        else:
            formatted(found, "roleRef.name", role["name"], formats.path_segment)
        for index, subject in enumerate(obj.get("subjects") or ()):
            _subject(found, subject, f"subjects[{index}]", namespaced=namespaced)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj["roleRef"] == old["roleRef"]:
            return []
        names = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        # In the message, the fields have the names of kube-apiserver's internal Go type.
        shown = {go: obj["roleRef"].get(key, "") for go, key in names}
        return [invalid_value("roleRef", shown, "cannot change roleRef")]


def _subject(found: Found, subject: Mapping[str, Any], path: str, *, namespaced: bool) -> None:
    if not subject.get("name"):
        found.append(required(f"{path}.name"))
    group = subject.get("apiGroup", "")
    match subject.get("kind", ""):
        case "ServiceAccount":
            if subject.get("name"):
                formatted(found, f"{path}.name", subject["name"], formats.dns_subdomain)
            if group:
                found.append(not_supported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                found.append(required(f"{path}.namespace"))
        case "User" | "Group":
            if group != GROUP:
                found.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
        case other:
            found.append(not_supported(f"{path}.kind", other, ("ServiceAccount", "User", "Group")))
