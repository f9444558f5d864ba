"""Admission policies that check and change AppWrappers as the webhook of AppWrapper does.

One policy suspends each new AppWrapper. Another policy writes the user who created the AppWrapper into annotations that
no user can change. The controller (`embedded.controllers.operators.appwrapper`) creates the wrapped objects with the
rights of that user. So an AppWrapper cannot create an object that its user has no right to create. (AppWrapper's own
webhook checks this right earlier, when the AppWrapper is created. In Phalanx the API server checks it when the
controller creates the wrapped object.) The manifests of the wrapped objects cannot be changed.

Source: internal/webhook/appwrapper_webhook.go of v1.2.1.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.policies import Made, changing, refusing, rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper import kinds

_NOTES, _OLD_NOTES = "object.metadata.annotations", "oldObject.metadata.annotations"
_PARTS = "(has(object.spec.components) ? object.spec.components : [])"
_ITEMS = (
    "(has({0}.spec.resources) && has({0}.spec.resources.GenericItems) ? {0}.spec.resources.GenericItems.map(i, "
    "has(i.generictemplate) ? i.generictemplate : {{}}) : [])"
)
_WRAPPED = _ITEMS.format("object")


def _rules(operation: str) -> list[Object]:
    made = rule(
        kinds.GROUP,
        kinds.APP_WRAPPERS.plural,
        operation,
        versions=(kinds.APP_WRAPPERS.version, kinds.MCAD_VERSION),
    )
    return [{**made, "apiGroups": [kinds.GROUP, kinds.IBM_APP_WRAPPERS.group]}]


def _changing(name: str, conditions: dict[str, str], change: str) -> list[Made]:
    return changing(f"{name}.appwrapper.phalanx.dev", _rules("CREATE"), conditions, change)


def _refusing(name: str, operation: str, checks: dict[str, str]) -> list[Made]:
    return refusing(f"{name}.appwrapper.phalanx.dev", _rules(operation), {}, checks)


def _kept(key: str) -> str:
    """Return a CEL expression that is true if an update does not change the annotation `key`."""
    now, then = (f'has({of}) && "{key}" in {of}' for of in (_NOTES, _OLD_NOTES))
    return f'(({now}) == ({then})) && (!({now}) || {_NOTES}["{key}"] == {_OLD_NOTES}["{key}"])'


# Commas separate the groups in the annotation. So a group whose name contains a comma is left out of the annotation.
# The wrapped objects are then created without the rights of this group.
_GROUPS = 'request.userInfo.groups.filter(g, !g.contains(",")).join(",")'
_SIGNATURE = (
    "Object{metadata: Object.metadata{annotations: {"
    f'"{kinds.CREATOR}": request.userInfo.username, "{kinds.CREATOR_GROUPS}": {_GROUPS}}}}}}}'
)
_LABELS = (
    f'Object{{metadata: Object.metadata{{labels: {{"{kinds.USER}": request.userInfo.username.replace(":", "-")}}}}}}'
)
_SUSPEND = "Object{spec: Object.spec{suspend: true}}"
# If an AppWrapper has no `spec`, the policy adds one. Then the API server's schema validation reports the field that is
# missing in `spec`. The policy does not change a `spec` that is not a JSON object, so that the validation reports the
# type of this `spec`.
_OURS = {
    "ours": (
        "!has(object.spec) || (type(object.spec) == map && "
        f'(!has(object.spec.managedBy) || object.spec.managedBy == "{kinds.MANAGER}"))'
    ),
}
_NAME = "^[A-Za-z0-9]([A-Za-z0-9_.:-]{0,61}[A-Za-z0-9])?$"
_CREATE = {
    "an AppWrapper must not wrap another AppWrapper": (
        f'!{_PARTS}.exists(c, c.template.kind == "{kinds.APP_WRAPPERS.name}") && '
        f'!{_WRAPPED}.exists(t, has(t.kind) && t.kind == "{kinds.APP_WRAPPERS.name}")'
    ),
    "wrapped objects must be in the namespace of their AppWrapper": (
        f"{_PARTS}.all(c, !has(c.template.metadata) || !has(c.template.metadata.namespace) || "
        'c.template.metadata.namespace == "" || c.template.metadata.namespace == object.metadata.namespace) && '
        f"{_WRAPPED}.all(t, !has(t.metadata) || !has(t.metadata.namespace) || "
        't.metadata.namespace == "" || t.metadata.namespace == object.metadata.namespace)'
    ),
    "an AppWrapper must wrap 1 to 64 objects": (
        f"size({_WRAPPED}) <= 64 && size({_PARTS}) <= 64 && (has(object.spec.resources) || size({_PARTS}) > 0)"
    ),
    "an AppWrapper must have either components or resources": (
        "!(has(object.spec.resources) && has(object.spec.components))"
    ),
}
_OLD_PARTS = _PARTS.replace("object", "oldObject")
_UPDATE = {
    # The other checks read the spec. So this check is the first, because the API server reports the first failed check.
    "spec: Required value": "has(object.spec)",
    "generictemplates are immutable, because their objects are created with the rights of the AppWrapper's creator": (
        f"{_WRAPPED} == {_ITEMS.format('oldObject')}"
    ),
    "components are immutable, except for podSetInfos": (
        f"{_PARTS}.map(c, c.template) == {_OLD_PARTS}.map(c, c.template) && "
        f"{_PARTS}.map(c, has(c.podSets) ? c.podSets : []) == "
        f"{_OLD_PARTS}.map(c, has(c.podSets) ? c.podSets : [])"
    ),
    "managedBy is immutable": (
        "has(object.spec.managedBy) == has(oldObject.spec.managedBy) && "
        "(!has(object.spec.managedBy) || object.spec.managedBy == oldObject.spec.managedBy)"
    ),
    f"{kinds.CREATOR} and {kinds.CREATOR_GROUPS} are immutable, because they name the AppWrapper's creator": (
        f"{_kept(kinds.CREATOR)} && {_kept(kinds.CREATOR_GROUPS)}"
    ),
}
POLICIES: Final[tuple[Made, ...]] = (
    *_changing("created", {}, _SIGNATURE),
    *_changing("suspended", _OURS, _SUSPEND),
    *_changing("labelled", {"is-a-label": f"request.userInfo.username.matches('{_NAME}')"}, _LABELS),
    *_refusing("checked", "CREATE", _CREATE),
    *_refusing("immutable", "UPDATE", _UPDATE),
)
