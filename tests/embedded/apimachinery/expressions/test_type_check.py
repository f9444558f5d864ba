"""Types of expressions: what cel-go refuses is refused in its words, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.type_check import ANY, DYN, Type, TypeShape, check
from phalanx.embedded.apiserver.registry.kinds.policy.admission_policy import PolicyStrategy

SCHEMA: dict[str, Type] = {
    "replicas": "int",
    "name": "string",
    "ratio": "double",
    "since": "timestamp",
    "names": ("list", "string"),
    "labels": ("map", "string", "string"),
    "free": DYN,
}


def verdict(text: str) -> Any:
    return check(text, {"self": TypeShape(SCHEMA.get), "object": ANY})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("self.replicas > 'a'", "ERROR: <input>:1:15: found no matching overload for '_>_' applied to '(int, string)'"),
        ("1 + 'a' == 2", "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("self.replicas == '3'", "1:15: found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.name && true", "1:11: found no matching overload for '_&&_' applied to '(string, bool)'"),
        ("!self.name", "1:1: found no matching overload for '!_' applied to '(string)'"),
        ("self.replicas in self.names", "'@in' applied to '(int, list(string))'"),
        ("self.names.all(n, n > 1)", "1:21: found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.labels[1] == 'x'", "'_[_]' applied to '(map(string, string), int)'"),
        ("self.replicas.startsWith('a')", "'startsWith' applied to 'int.(string)'"),
        ("size(self.replicas) > 1", "'size' applied to '(int)'"),
        ("self.replicas ? true : false", "'_?_:_' applied to '(int, bool, bool)'"),
        ("self.since < 5", "'_<_' applied to '(timestamp, int)'"),
        (
            "has(self.size) && true",
            "ERROR: <input>:1:9: undefined field 'size'\n | has(self.size) && true\n | ........^",
        ),
        ("self.ratio * 2 > 1.0", "'_*_' applied to '(double, int)'"),
        # These are the answers of kube-apiserver 1.36.2.
        ("object.name in ['a', 1]", "1:22: expected type 'string' but found 'int'"),
        ("{'a': object.x, 'b': object.x ? '1' : '2'}", "1:31: expected type 'dyn' but found 'string'"),
        ("{'a': 'z', 'b': object.x ? object.y : '2'}", "1:26: expected type 'string' but found 'dyn'"),
        ("[object.x, object.y[0], object.z.all(c, c.a == 1)]", "1:37: expected type 'dyn' but found 'bool'"),
        ("object.l.all(c, c in [c, 'a'])", "1:26: expected type 'dyn' but found 'string'"),
        ("[self.name, object.metadata.name]", "1:28: expected type 'string' but found 'dyn'"),
        ("Object{a: {1: 'a', 'b': 'c'}}", "1:20: expected type 'int' but found 'string'"),
        ("object.x in 5", "1:10: found no matching overload for '@in' applied to '(dyn, int)'"),
    ],
)
def test_what_does_not_fit_is_told_as_cel_go_tells_it(text: str, what: str) -> None:
    [error] = verdict(text).errors
    assert what in error
    assert error.endswith("^")


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("self.replicas > 1 && self.name != 'x'", "bool"),
        ("size({'a': string(object.x), 'b': object.x ? '1' : '2'})", "int"),
        ("size([[], ['a'], [object.x]])", "int"),
        ("size([object.a + 'x', 'y', object.b ? object.c : 'z'])", "int"),
        ("[Object{a: object.b}, Object.c{d: 'e'}].size()", "int"),
        ("self.ratio > 1", "bool"),  # numbers are compared across their types
        ("self.replicas + 1", "int"),
        ("self.name + 'x'", "string"),
        ("self.names.map(n, n.size())", ("list", "int")),
        ("self.names.filter(n, n.startsWith('a')).size() == 0", "bool"),
        ("self.names.exists(n, n == self.name)", "bool"),
        ("has(self.free) && self.free.x > 'a' || self.free == 3", "bool"),
        ("'a' in self.labels && self.labels['a'] == 'b' && self.labels.a == 'b'", "bool"),
        ("self.since - self.since < duration('1h')", "bool"),
        ("self.since + duration('1h') > timestamp('2026-01-01T00:00:00Z')", "bool"),
        ("self.name == 'a' ? 1 : 2", "int"),
        ("self.name.matches('^a')", "bool"),
        ("[1, 2].all(i, i > 0) && {'a': 1}.all(k, k != '')", "bool"),
        ("-self.replicas < 0 && !(self.replicas == 0)", "bool"),
        ("self.free.whatever(1, 'x') > 3", "bool"),
        ("self.name > r'a' // said\n && true", "bool"),
        ("null == self.free", "bool"),
        ("self.names + ['a'] == [] && self.labels != {} && self.names != [self.free]", "bool"),
        ("Object{spec: Object.spec{x: 1}}", DYN),  # not read: no verdict
        ("self.?name.orValue('') == 'x'", DYN),
        ("(self.replicas", DYN),
        ("x > 1 + unknown('a')", "bool"),
    ],
)
def test_what_fits_or_is_not_known_passes(text: str, type_: Type) -> None:
    found = verdict(text)
    assert found.errors == ()
    assert found.type == type_


@pytest.mark.parametrize(
    ("part", "text", "what"),
    [
        ("validations", "1 + 'a' == 2", "compilation failed: ERROR: <input>:1:3: found no matching overload"),
        ("validations", "size('a')", "must evaluate to bool"),
        ("matchConditions", "'yes'", "must evaluate to bool"),
        ("validations", "request.user == 'ada'", "undefined field 'user'"),
        ("validations", "request.userInfo.groups == 'a'", "applied to '(list(string), string)'"),
        ("validations", "namespaceObject.metadata.labels['a'] == 1", "'_==_' applied to '(string, int)'"),
        ("validations", "variables.x == 1", "undeclared reference to 'variables'"),
    ],
)
def test_a_policy_whose_types_do_not_fit_is_refused_when_it_is_written(part: str, text: str, what: str) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}
    spec[part] = [{"name": "n", "expression": text}] if part == "matchConditions" else [{"expression": text}]
    policy = {"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail", **spec}}
    [cause] = PolicyStrategy("validations").validate(policy)
    assert what in cause.message
    assert cause.field == f"spec.{part}[0].expression"
