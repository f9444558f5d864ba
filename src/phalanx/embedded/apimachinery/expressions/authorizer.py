"""The variable `authorizer` of admission expressions, which checks other rights of the user who makes the request.

    authorizer.group("").resource("configmaps").namespace("kube-system").name("site").check("update").allowed()

Each of these functions returns a map that contains the arguments of all functions that were called before. `check` adds
the decision. The functions `serviceAccount` and `requestResource` and the selectors are not supported: an expression
that uses them fails. Source: k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Check = dict[str, Any]
AUTHORIZER: Check = {}


class AuthorizationQuestion(NamedTuple):
    """The attributes of an access check. `resource`: RESOURCE, or RESOURCE/SUBRESOURCE. `path`: the URL path, if the
    check is not about a resource. `namespace`: empty for the cluster scope."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


Rights = Callable[[AuthorizationQuestion], bool]


def asking(rights: Rights | None) -> dict[str, Callable[..., Any]]:
    """Return the functions by which an expression checks rights; an empty mapping if the rights of the user are
    unknown."""
    if rights is None:
        return {}

    def check(asked: Check, verb: str) -> Check:
        of, beneath = asked.get("resource", ""), asked.get("subresource", "")
        said = {name: asked[name] for name in ("group", "namespace", "name", "path") if name in asked}
        question = AuthorizationQuestion(verb=verb, resource=f"{of}/{beneath}" if beneath else of, **said)
        return {"allowed": rights(question)}

    steps = ("group", "resource", "subresource", "namespace", "name", "path")
    found: dict[str, Callable[..., Any]] = {step: _step(step) for step in steps}
    return found | {"check": check, "allowed": lambda checked: checked["allowed"]}


def _step(field: str) -> Callable[[Check, str], Check]:
    return lambda asked, text: {**asked, field: text}
