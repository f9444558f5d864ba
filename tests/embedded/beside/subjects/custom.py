"""Conversations about custom resources: definitions, schemas, defaults, formats, subresources, rules in CEL."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.embedded.beside.conversation import JSON_PATCH, MERGE, REMOVED, STRATEGIC, TABLE, Talk, changed

Json = Any

_GROUP = "c${id}.example.com"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

# Fields of a schema, with values that are right and values that are wrong or on the edge.
_FIELDS: dict[str, tuple[Json, tuple[Json, ...], tuple[Json, ...]]] = {
    "text": ({"type": "string", "minLength": 2, "maxLength": 5}, ("ab", "abc"), ("a", "abcdef", 1, None, ["x"])),
    "word": ({"type": "string", "pattern": "^[a-z]+$"}, ("ab",), ("A", "", 3, {"a": 1})),
    "count": ({"type": "integer", "minimum": 1, "maximum": 10}, (1, 7), (0, 11, 1.5, "1", 10**10, 5.0, None)),
    "ratio": ({"type": "number", "exclusiveMinimum": True, "minimum": 0}, (0.5, 1, 1e10), (0, -1, "x", 1e300, 1e21)),
    "even": ({"type": "integer", "multipleOf": 2}, (2, 4), (3, 2.5)),
    "small": ({"type": "integer", "format": "int32"}, (5,), (2**31, 2**40, -(2**31) - 1)),
    "flag": ({"type": "boolean", "default": True}, (True, False), ("true", 1, None)),
    "mode": ({"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"}, ("Fast", "Slow"), ("fast", "", 1)),
    "when": ({"type": "string", "format": "date-time"}, ("2026-01-01T00:00:00Z",), ("yesterday", "2026-01-01", "")),
    "day": ({"type": "string", "format": "date"}, ("2026-01-01",), ("2026-13-01", "x")),
    "lasting": ({"type": "string", "format": "duration"}, ("5s", "1h"), ("5 parsecs", "")),
    "address": ({"type": "string", "format": "ipv4"}, ("10.1.2.3",), ("10.1.2.300", "::1")),
    "net": ({"type": "string", "format": "cidr"}, ("10.0.0.0/8",), ("10.0.0.0/40", "10.0.0.0")),
    "mail": ({"type": "string", "format": "email"}, ("a@b.example",), ("a", "a@")),
    "bytes": ({"type": "string", "format": "byte"}, ("YWI=",), ("!", "YWI")),
    "identity": ({"type": "string", "format": "uuid"}, ("123e4567-e89b-12d3-a456-426614174000",), ("x", "")),
    "link": ({"type": "string", "format": "uri"}, ("https://a.example/b",), ("not a uri", "%%")),
    "host": ({"type": "string", "format": "hostname"}, ("a.example",), ("a_b..c", "-a")),
    "either": ({"x-kubernetes-int-or-string": True}, (1, "50%"), (1.5, True, [])),
    "names": (
        {"type": "array", "items": {"type": "string"}, "maxItems": 3, "minItems": 1},
        (["a"],),
        ([], ["a"] * 4, [1]),
    ),
    "unique": (
        {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 9, "x-kubernetes-list-type": "set"},
        (["a", "b"],),
        (["a", "a"], ["a", None], {}),
    ),
    "ports": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}},
            },
        },
        ([{"name": "a"}], [{"name": "a", "port": 1}, {"name": "b"}]),
        ([{"name": "a"}, {"name": "a"}], [{"port": 1}], [{"name": 1}], ["x"], [{"name": "a", "odd": 1}]),
    ),
    "labels": (
        {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        ({"a": "b"},),
        ({"a": 1}, {"a": "b", "c": "d", "e": "f"}, {"a": None}, []),
    ),
    "free": (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ({"a": {"b": [1, 2.5, None]}}, {}),
        ("x", [], {"n": 1e10, "m": 0.1}),
    ),
    "maybe": ({"type": "string", "nullable": True}, (None, "a"), (1,)),
    "inner": (
        {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"type": "string"}, "depth": {"type": "integer", "default": 3}},
        },
        ({"kind": "a"}, {"kind": "b", "depth": 1}),
        ({}, {"kind": 1}, {"kind": "a", "odd": 1}, {"depth": "x"}),
    ),
    "embedded": (
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},),
        ({"kind": "A"}, {"apiVersion": "v1", "kind": "B", "metadata": {"name": 1}}, {}),
    ),
    "choice": (
        {"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 2}]},
        (1, 6),
        (3, 4),
    ),
    "denied": ({"type": "string", "not": {"enum": ["no"]}}, ("yes",), ("no",)),
}

_RULES: tuple[tuple[tuple[str, ...], Json], ...] = (
    (("count",), {"rule": "self.count < 8"}),
    (
        ("count", "small"),
        {"rule": "!has(self.count) || !has(self.small) || self.small <= self.count", "message": "too large"},
    ),
    (("count",), {"rule": "!has(oldSelf.count) || self.count >= oldSelf.count", "message": "count cannot fall"}),
    (("text",), {"rule": "self.text.startsWith('a')", "messageExpression": "'text is ' + self.text"}),
    (("text",), {"rule": "self.text != 'abc'", "reason": "FieldValueForbidden", "fieldPath": ".text"}),
    (("text",), {"rule": "self.text.matches('^a')", "message": "line one"}),
    (("names",), {"rule": "self.names.all(n, n.size() < 3)"}),
    (("names",), {"rule": "!('b' in self.names)", "message": "no b"}),
    (("ports",), {"rule": "self.ports.exists_one(p, p.name == 'a')"}),
    (("labels",), {"rule": "!has(self.labels) || self.labels.all(k, k != 'c')"}),
    (("when",), {"rule": "!has(self.when) || self.when < timestamp('2030-01-01T00:00:00Z')"}),
    (("lasting",), {"rule": "duration(self.lasting) < duration('10m')"}),
    (("either",), {"rule": "type(self.either) == int || self.either == '50%'"}),
    (("mode", "flag"), {"rule": "self.mode == 'Fast' ? self.flag : true"}),
    (("inner",), {"rule": "!has(self.inner) || self.inner.depth > 0", "reason": "FieldValueRequired"}),
    (("link",), {"rule": "isURL(self.link) && url(self.link).getScheme() == 'https'"}),
    (("address",), {"rule": "isIP(self.address) && ip(self.address).family() == 4"}),
    (("net",), {"rule": "isCIDR(self.net) && cidr(self.net).prefixLength() <= 16"}),
    (("text",), {"rule": "quantity('1Gi').compareTo(quantity('1G')) > 0 && self.text != 'ab'"}),
    (("text",), {"rule": "!oldSelf.hasValue() || self.text == oldSelf.value().text", "optionalOldSelf": True}),
    (("ratio",), {"rule": "self.ratio <= 1.0", "message": "at most one"}),
    (("unique",), {"rule": "self.unique == self.unique.sort()"}),
    (("count",), {"rule": "self.count / (self.count - 7) < 100"}),
)
_WRONG_RULES: tuple[Json, ...] = (
    {"rule": "self.odd > 1"},
    {"rule": "self.count +"},
    {"rule": "1"},
    {"rule": ""},
    {"rule": "self.count > 'a'"},
    {"rule": "true", "message": "two\nlines"},
    {"rule": "true", "messageExpression": "1"},
    {"rule": "true", "reason": "Odd"},
    {"rule": "true", "fieldPath": ".odd"},
    {"rule": "odd(self.count)"},
    {"rule": "self.names.all(a, self.names.all(b, self.names.all(c, a != b || b != c)))"},
    {"rule": "true", "message": " "},
)


def _definition(random: Random, fields: list[str], rules: list[Json], **version: Json) -> Json:
    schema: Json = {"type": "object", "properties": {name: _FIELDS[name][0] for name in fields}}
    if rules:
        schema["x-kubernetes-validations"] = rules
    if random.random() < 0.4:
        schema["required"] = [random.choice(fields)]
    status = {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}
    properties = {"spec": schema, "status": status}
    columns = [{"name": "First", "type": "string", "jsonPath": f".spec.{fields[0]}"}]
    columns += [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        **({"additionalPrinterColumns": columns} if random.random() < 0.5 else {}),
        **({"subresources": {"status": {}}} if random.random() < 0.5 else {}),
        **version,
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]}
    spec = {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [served]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{_GROUP}"},
        "spec": spec,
    }


def _begun(talk: Talk, definition: Json) -> str:
    """Create the definition and wait until it is served; return the path of its objects."""
    talk.cleanup.append(f"{_DEFINITIONS}/things.{_GROUP}")
    path = f"/apis/{_GROUP}/v1/namespaces/${{ns}}/things"
    talk.post(_DEFINITIONS, definition)
    talk.get(f"{_DEFINITIONS}/things.{_GROUP}", TABLE, until=200)
    talk.get(path, until=200)
    return path


def _thing(random: Random, fields: list[str], *, wrong: int, name: str = "t") -> Json:
    """Return a Thing with `wrong` fields that are wrong."""
    bad = random.sample(fields, min(wrong, len(fields)))
    spec = {}
    for one in fields:
        _, right, wrongs = _FIELDS[one]
        if one in bad:
            spec[one] = random.choice(wrongs)
        elif random.random() < 0.8:
            spec[one] = random.choice(right)
    if wrong and random.random() < 0.3:
        spec["unknown"] = {"a": 1}
    return {"apiVersion": f"{_GROUP}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def custom_resources(talk: Talk) -> None:
    """A definition without rules, and its objects."""
    random = talk.random
    fields = random.sample(sorted(_FIELDS), random.choice((3, 5, 7)))
    path = _begun(talk, _definition(random, fields, []))
    place = f"{path}/t"
    talk.post(path, _thing(random, fields, wrong=1))
    talk.post(f"{path}?fieldValidation=Strict", _thing(random, fields, wrong=random.choice((1, 2, 3))))
    made = talk.post(path, _thing(random, fields, wrong=0), managed=True)
    one = random.choice(fields)
    steps = [
        lambda: talk.edit(place, made, (("spec", one), random.choice(_FIELDS[one][2]))),
        lambda: talk.edit(place, made, (("spec", one), REMOVED), managed=True),
        lambda: talk.put(place, _thing(random, fields, wrong=0)),
        lambda: talk.patch(place, {"spec": {one: random.choice(_FIELDS[one][2])}}),
        lambda: talk.patch(place, {"spec": {one: random.choice(_FIELDS[one][1])}}, managed=True),
        lambda: talk.patch(place, {"spec": {one: None}}, STRATEGIC),
        lambda: talk.patch(place, [{"op": "replace", "path": f"/spec/{one}", "value": 5}], JSON_PATCH),
        lambda: talk.patch(place, [{"op": "remove", "path": "/spec/none"}], JSON_PATCH),
        lambda: talk.patch(f"{place}/status", {"status": {"phase": random.choice(("A", 1, None))}}, managed=True),
        lambda: talk.patch(f"{place}/scale", {"spec": {"replicas": 2}}),
        lambda: talk.get(place, random.choice(("", TABLE, "application/yaml"))),
        lambda: talk.get(path, TABLE),
        lambda: talk.get(f"{path}?fieldSelector=spec.{one}%3Dx"),
        lambda: talk.apply(place, _thing(random, fields, wrong=0), "m"),
        lambda: talk.apply(place, _thing(random, fields, wrong=1), "m", "force=true"),
        lambda: talk.apply(f"{path}/u", _thing(random, fields, wrong=0, name="u"), "m"),
        lambda: talk.patch(place, {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "x"}}, managed=True),
        lambda: talk.watch(path, made),
        lambda: talk.get(f"/apis/{_GROUP}/v1"),
    ]
    for step in random.sample(steps, random.choice((6, 8, 10))):
        step()
    talk.delete(place, random.choice((None, {"propagationPolicy": "Foreground"})))
    talk.get(place)


def rules(talk: Talk) -> None:
    """A definition with rules in CEL, first a wrong one, and objects that break them."""
    random = talk.random
    chosen = random.sample(_RULES, random.choice((1, 2, 3)))
    fields = sorted({name for names, _ in chosen for name in names} | {"count", "names"})
    found = [rule for _, rule in chosen]
    wrong = [*found, random.choice(_WRONG_RULES)]
    talk.post(f"{_DEFINITIONS}?dryRun=All", _definition(random, fields, wrong))
    talk.post(f"{_DEFINITIONS}?dryRun=All", _definition(random, fields, [random.choice(_WRONG_RULES)]))
    path = _begun(talk, _definition(random, fields, found))
    place = f"{path}/t"
    bases = [talk.post(path, _thing(random, fields, wrong=random.choice((0, 0, 1)))) for _ in range(3)]
    for _ in range(random.choice((3, 5))):
        one = random.choice(fields)
        right, wrongs = _FIELDS[one][1:]
        match random.randrange(4):
            case 0:
                talk.edit(place, random.choice(bases), (("metadata", "resourceVersion"), REMOVED))
            case 1:
                talk.patch(place, {"spec": {one: random.choice(wrongs)}})
            case 2:
                talk.patch(place, {"spec": {one: random.choice(right)}})
            case _:
                talk.apply(place, _thing(random, fields, wrong=0), "m", "force=true")
    talk.get(path, TABLE)


_VERSION_MISTAKES: tuple[tuple[tuple[str | int, ...], Json], ...] = (
    (("served",), False),
    (("storage",), False),
    (("name",), "V1"),
    (("name",), "v1beta1"),
    (("schema",), REMOVED),
    (("schema", "openAPIV3Schema", "type"), "string"),
    (
        ("schema", "openAPIV3Schema", "properties", "metadata"),
        {"type": "object", "properties": {"x": {"type": "string"}}},
    ),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "count", "default"), "text"),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "count", "type"), "odd"),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "count", "format"), "odd"),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "count", "enum"), []),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"), {}),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"), {"type": "array"}),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"), {"type": "string", "pattern": "("}),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"), {"$ref": "#/x"}),
    (("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"), {"type": "string", "uniqueItems": True}),
    (
        ("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"),
        {"type": "object", "x-kubernetes-list-type": "map"},
    ),
    (
        ("schema", "openAPIV3Schema", "properties", "spec", "properties", "new"),
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"},
    ),
    (("schema", "openAPIV3Schema", "properties", "spec", "additionalProperties"), {"type": "string"}),
    (("schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-preserve-unknown-fields"), False),
    (("additionalPrinterColumns",), [{"name": "A", "type": "odd", "jsonPath": ".spec"}]),
    (("additionalPrinterColumns",), [{"name": "", "type": "string", "jsonPath": "spec["}]),
    (("subresources",), {"scale": {"specReplicasPath": ".odd", "statusReplicasPath": ".status.replicas"}}),
    (("subresources",), {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.replicas"}}),
    (("selectableFields",), [{"jsonPath": ".spec.count"}]),
    (("selectableFields",), [{"jsonPath": ".spec.odd"}]),
    (("deprecated",), True),
    (("deprecationWarning",), "old"),
)
_SPEC_MISTAKES: tuple[tuple[tuple[str | int, ...], Json], ...] = (
    (("scope",), "Odd"),
    (("scope",), REMOVED),
    (("group",), "Upper.example"),
    (("group",), "other.example.com"),
    (("names", "plural"), "Things"),
    (("names", "kind"), REMOVED),
    (("names", "kind"), "thing"),
    (("names", "shortNames"), ["A B"]),
    (("names", "categories"), ["all", "Odd_"]),
    (("names", "listKind"), "Thing"),
    (("conversion",), {"strategy": "None"}),
    (("conversion",), {"strategy": "Webhook"}),
    (("conversion",), {"strategy": "Odd"}),
    (("conversion",), {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}),
    (("preserveUnknownFields",), True),
    (("preserveUnknownFields",), False),
    (("versions",), []),
    (("versions",), REMOVED),
)


def definitions(talk: Talk) -> None:
    """Wrong definitions, then a right one that is changed to wrong ones."""
    random = talk.random
    fields = ["count", *random.sample(sorted({*_FIELDS} - {"count"}), 2)]
    good = _definition(random, fields, [])
    place = f"{_DEFINITIONS}/things.{_GROUP}"
    talk.cleanup.append(place)
    bad = [(("spec", "versions", 0, *path), value) for path, value in _VERSION_MISTAKES]
    bad += [(("spec", *path), value) for path, value in _SPEC_MISTAKES]
    for edit in random.sample(bad, 5):
        talk.post(f"{_DEFINITIONS}?dryRun=All", changed(good, [edit]))
    talk.post(_DEFINITIONS, good)
    talk.get(f"/apis/{_GROUP}/v1/namespaces/${{ns}}/things", until=200)
    for edit in random.sample(bad, 4):
        talk.edit(place, talk.get(place), edit)
    talk.patch(place, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    talk.patch(place, {"spec": {"names": {"shortNames": ["x", "y"]}}}, MERGE)
    talk.get(f"/apis/{_GROUP}")
    talk.delete(place)
