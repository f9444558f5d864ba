"""Conversations about admission policies: wrong ones, and bindings and parameters that refuse ConfigMaps."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.embedded.beside.conversation import CORE, REMOVED, STRATEGIC, TABLE, Talk, changed

Json = Any
Edits = tuple[tuple[tuple[str | int, ...], Json], ...]

_ROOT = "/apis/admissionregistration.k8s.io/v1"
_MAPS = f"{CORE}/configmaps"
_NAME = "p-${id}"

_VALIDATIONS: tuple[Json, ...] = (
    {"expression": "object.metadata.name != 'bad'"},
    {"expression": "object.data.a != 'x'", "message": "a may not be x"},
    {
        "expression": "!has(object.data) || object.data.size() < 3",
        "messageExpression": "'has ' + string(object.data.size())",
    },
    {"expression": "request.operation != 'UPDATE' || oldObject.data == object.data", "reason": "Forbidden"},
    {"expression": "request.userInfo.username == 'admin'", "reason": "Unauthorized"},
    {"expression": "namespaceObject.metadata.name != 'x' && !('no' in object.data)", "reason": "RequestEntityTooLarge"},
    {"expression": "variables.size < 2", "message": "too many"},
    {"expression": "object.data.none == 'x'"},
    {"expression": "object.data['a'].matches('^[a-z]+$')", "messageExpression": "object.data.none"},
    {"expression": "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"},
    {"expression": "object.data.all(k, k.size() < 4)", "messageExpression": "''", "message": "short keys"},
    {"expression": "int(object.data.a) > 0"},
)
_MISTAKES: Edits = (
    (("spec", "validations", 0, "expression"), "object.odd +"),
    (("spec", "validations", 0, "expression"), "1"),
    (("spec", "validations", 0, "expression"), ""),
    (("spec", "validations", 0, "expression"), "params.x == 1"),
    (("spec", "validations", 0, "message"), "two\nlines"),
    (("spec", "validations", 0, "reason"), "Odd"),
    (("spec", "validations", 0, "messageExpression"), "1"),
    (("spec", "validations"), []),
    (("spec", "failurePolicy"), "Odd"),
    (("spec", "matchConstraints"), REMOVED),
    (("spec", "matchConstraints", "resourceRules"), []),
    (("spec", "matchConstraints", "resourceRules", 0, "operations"), ["ODD"]),
    (("spec", "matchConstraints", "resourceRules", 0, "apiVersions"), []),
    (("spec", "matchConstraints", "resourceRules", 0, "resources"), ["*", "pods"]),
    (("spec", "matchConstraints", "resourceRules", 0, "resources"), ["pods/", "*/x"]),
    (("spec", "matchConstraints", "matchPolicy"), "Odd"),
    (("spec", "matchConstraints", "namespaceSelector"), {"matchExpressions": [{"key": "a", "operator": "Odd"}]}),
    (("spec", "matchConditions"), [{"name": "a b", "expression": "true"}]),
    (("spec", "matchConditions"), [{"name": "a", "expression": "1"}, {"name": "a", "expression": "true"}]),
    (("spec", "variables"), [{"name": "1x", "expression": "true"}]),
    (("spec", "variables"), [{"name": "size", "expression": "variables.other"}]),
    (("spec", "auditAnnotations"), [{"key": "a", "valueExpression": "1"}]),
    (("spec", "paramKind"), {"apiVersion": "v1", "kind": ""}),
    (("spec", "paramKind"), {"apiVersion": "a/b/c", "kind": "ConfigMap"}),
)


def _policy(validations: list[Json], **rest: Json) -> Json:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    spaces = {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}}
    marker = {"expression": "!('marker' in object.metadata.annotations)", "message": "the policy is in force"}
    marker["expression"] = "!has(object.metadata.annotations) || " + marker["expression"]
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": spaces},
        "variables": [{"name": "size", "expression": "has(object.data) ? object.data.size() : 0"}],
        "validations": [marker, *validations],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    return {**kind, "metadata": {"name": _NAME}, "spec": {**spec, **rest}}


def policies(talk: Talk) -> None:
    """A validating policy: wrong ones first, then one in force."""
    random = talk.random
    path, bindings = f"{_ROOT}/validatingadmissionpolicies", f"{_ROOT}/validatingadmissionpolicybindings"
    talk.cleanup.append(f"{bindings}/{_NAME}")
    validations = random.sample(_VALIDATIONS, random.choice((1, 2, 3)))
    extra = _extra(random)
    if "paramKind" not in extra:  # once the last policy with a kind of parameters goes, the real server finds none more
        talk.cleanup.append(f"{path}/{_NAME}")
    good = _policy(validations, **extra)
    for edit in random.sample(_MISTAKES, 3):
        talk.post(f"{path}?dryRun=All", changed(good, [edit]))
    talk.post(path, good)
    binding = {"metadata": {"name": _NAME}, "spec": {"policyName": _NAME, "validationActions": ["Deny"]}}
    actions = random.choice((["Deny"], ["Deny"], ["Deny", "Audit"], ["Warn"], ["Warn", "Audit"]))
    talk.post(f"{bindings}?dryRun=All", changed(binding, [random.choice(_BINDING_MISTAKES)]))
    if "paramKind" in extra:
        binding["spec"]["paramRef"] = random.choice(_PARAMETERS)
        if random.random() < 0.7:
            talk.post(_MAPS, {"metadata": {"name": "params", "labels": {"is": "param"}}, "data": {"a": "z"}})
    bound = talk.post(bindings, binding)
    marked = {"metadata": {"name": "marked", "annotations": {"marker": ""}}}
    talk.post(f"{_MAPS}?dryRun=All", marked, until=422)
    if actions != ["Deny"]:
        talk.edit(f"{bindings}/{_NAME}", bound, (("spec", "validationActions"), actions))
        if "Deny" not in actions:
            talk.post(f"{_MAPS}?dryRun=All", marked, until=201)
    for number in range(random.choice((4, 6))):
        data = random.choice(
            ({"a": "x"}, {"a": "b"}, {"no": "1"}, {"a": "b", "c": "d", "e": "f"}, {"a": "7", "long-key": ""}, None)
        )
        name = random.choice(("bad", f"m{number}"))
        talk.post(_MAPS, {"metadata": {"name": name}, **({"data": data} if data is not None else {})})
        talk.patch(f"{_MAPS}/{name}", {"data": {"a": random.choice(("x", "y", "1"))}})
    talk.edit(f"{path}/{_NAME}", talk.get(f"{path}/{_NAME}"), random.choice(_MISTAKES))
    talk.get(f"{path}?fieldSelector=metadata.name%3D{_NAME}", TABLE)
    talk.patch(f"{path}/{_NAME}", {"spec": {"failurePolicy": "Ignore"}}, STRATEGIC)


def _extra(random: Random) -> Json:
    match random.randrange(5):
        case 0:
            return {"matchConditions": [{"name": "not-m1", "expression": "object.metadata.name != 'm1'"}]}
        case 1:
            return {"failurePolicy": "Ignore"}
        case 2 | 3:
            return {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    return {}


_ANY = {"matchExpressions": [{"key": "is", "operator": "Exists"}]}
_PARAMETERS: tuple[Json, ...] = (
    {"name": "params", "namespace": "${ns}", "parameterNotFoundAction": "Deny"},
    {"name": "params", "parameterNotFoundAction": "Allow"},
    {"name": "none", "parameterNotFoundAction": "Deny"},
    {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"},
    {"selector": _ANY, "namespace": "${ns}", "parameterNotFoundAction": "Deny"},
)
_BINDING_MISTAKES: Edits = (
    (("spec", "policyName"), ""),
    (("spec", "policyName"), "A_b"),
    (("spec", "validationActions"), []),
    (("spec", "validationActions"), ["Deny", "Warn"]),
    (("spec", "validationActions"), ["Deny", "Deny"]),
    (("spec", "validationActions"), ["Odd"]),
    (("spec", "paramRef"), {}),
    (("spec", "paramRef"), {"name": "a", "selector": {}}),
    (("spec", "paramRef"), {"name": "a"}),
    (("spec", "paramRef"), {"name": "a", "parameterNotFoundAction": "Odd"}),
    (("spec", "matchResources"), {"matchPolicy": "Odd"}),
    (("spec", "matchResources"), {"resourceRules": [{"resourceNames": ["a", "a"]}]}),
)
_MUTATIONS: tuple[Json, ...] = (
    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: {'seen': 'yes'}}"}},
    {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'x': object.metadata.name}}}"},
    },
    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{odd: 1}"}},
    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}},
    {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/data/b', value: 'c'}]"}},
    {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/data/none'}]"}},
    {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/data/a', value: 'z'}]"}},
    {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}},
    {"patchType": "JSONPatch"},
    {"patchType": "Odd"},
)


def mutations(talk: Talk) -> None:
    """A mutating policy: what it makes of ConfigMaps, and wrong ones."""
    random = talk.random
    path, bindings = f"{_ROOT}/mutatingadmissionpolicies", f"{_ROOT}/mutatingadmissionpolicybindings"
    talk.cleanup += [f"{bindings}/{_NAME}", f"{path}/{_NAME}"]
    marked = "has(object.metadata.annotations) && 'marker' in object.metadata.annotations"
    marker = f"{marked} ? Object{{metadata: Object.metadata{{labels: {{'in': '!'}}}}}} : Object{{}}"
    first = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": marker}}
    policy = _policy([])
    del policy["spec"]["validations"]
    policy["kind"] = "MutatingAdmissionPolicy"
    policy["spec"] |= {
        "reinvocationPolicy": random.choice(("Never", "IfNeeded")),
        "mutations": [first, random.choice(_MUTATIONS[:8])],
    }
    for mutation in random.sample(_MUTATIONS, 3):
        talk.post(f"{path}?dryRun=All", changed(policy, [(("spec", "mutations"), [mutation])]))
    for _, edit in zip(range(2), random.sample(_MISTAKES, 2), strict=True):
        talk.post(f"{path}?dryRun=All", changed(policy, [edit]))
    talk.post(path, policy)
    talk.post(bindings, {"metadata": {"name": _NAME}, "spec": {"policyName": _NAME}})
    talk.get(f"{path}/{_NAME}", TABLE)
    talk.post(
        f"{_MAPS}?dryRun=All", {"metadata": {"name": "m", "annotations": {"marker": ""}}, "data": {"a": "z"}}, until=422
    )
    for number in range(3):
        talk.post(_MAPS, {"metadata": {"name": f"m{number}"}, "data": {"a": random.choice(("b", "z"))}}, managed=True)
    talk.patch(f"{_MAPS}/m1", {"data": {"d": "e"}}, managed=True)
    talk.delete(f"{path}/{_NAME}")
    talk.post(f"{path}?dryRun=All", {**policy, "spec": {**policy["spec"], "mutations": []}})
    talk.get(f"{bindings}/{_NAME}")
