"""Custom resources by their schema: pruning, defaults, and refusals with the real server's messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from phalanx.embedded.apiserver.registry.crd.crd import CustomStrategy, DefinitionStrategy, resources_of

DEFINITION = """
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wg]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string, minLength: 2, pattern: '^[a-z]+$'}
              size: {type: integer, minimum: 1, maximum: 10, default: 3}
              mode: {type: string, enum: [Fast, Slow], default: Fast}
              replicas: {type: integer, default: 1}
              tags: {type: array, maxItems: 3, items: {type: string}, x-kubernetes-list-type: set}
              parts:
                type: array
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, value: {type: integer, default: 5}}
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
              limit: {x-kubernetes-int-or-string: true}
              when: {type: string, format: date-time}
              note: {type: string, nullable: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              map: {type: object, additionalProperties: {type: string}}
            x-kubernetes-validations:
            - {rule: 'self.size <= 5 || self.mode == "Fast"', message: slow things stay small}
            - {rule: self.image == oldSelf.image, message: image is immutable}
          status: {type: object, properties: {phase: {type: string}, replicas: {type: integer}}}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
"""


def definition(**changes: Any) -> dict[str, Any]:
    """The definition above, as it is stored; `changes` are dotted paths with two underscores for the dots."""
    obj = yaml.safe_load(DEFINITION)
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = obj
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    strategy = DefinitionStrategy()
    strategy.default(obj)
    strategy.prepare_create(obj)
    return dict(obj)


[WIDGETS] = resources_of(definition())


def strategy() -> CustomStrategy:
    assert isinstance(WIDGETS.strategy, CustomStrategy)
    return WIDGETS.strategy


def widget(spec: str, **rest: Any) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": "a"}, "spec": yaml.safe_load(spec), **rest}


def lines(spec: str, old: str | None = None) -> list[str]:
    """What is wrong with a widget, new or changed."""
    obj = widget(spec)
    strategy().default(obj)
    if old is None:
        return [cause.line() for cause in strategy().validate(obj)]
    before = widget(old)
    strategy().default(before)
    return [cause.line() for cause in strategy().validate_update(obj, before)]


WRONG = {
    "{}": "spec.image: Required value",
    "{image: a}": 'spec.image: Invalid value: "a": spec.image in body should be at least 2 chars long',
    "{image: ABC}": "spec.image: Invalid value: \"ABC\": spec.image in body should match '^[a-z]+$'",
    "{image: 5}": 'spec.image: Invalid value: "integer": spec.image in body must be of type string: "integer"',
    "{image: abc, size: 0}": "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
    "{image: abc, size: 11}": "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
    "{image: abc, size: x}": 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
    "{image: abc, mode: Odd}": 'spec.mode: Unsupported value: "Odd": supported values: "Fast", "Slow"',
    "{image: abc, tags: [a, b, c, d]}": "spec.tags: Too many: 4: must have at most 3 items",
    "{image: abc, tags: [a, a]}": 'spec.tags[1]: Duplicate value: "a"',
    "{image: abc, parts: [{name: p}, {name: p}]}": 'spec.parts[1]: Duplicate value: {"name":"p"}',
    "{image: abc, parts: [{value: 1}]}": "spec.parts[0].name: Required value",
    "{image: abc, limit: 1.5}": (
        'spec.limit: Invalid value: "number": spec.limit in body must be of type integer,string: "number"'
    ),
    "{image: abc, when: soon}": (
        'spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon"'
    ),
    "{image: abc, map: {k: 1}}": (
        'spec.map.k: Invalid value: "integer": spec.map.k in body must be of type string: "integer"'
    ),
    "{image: abc, size: 9, mode: Slow}": "spec: Invalid value: slow things stay small",
}


def test_rules_are_evaluated_beside_what_does_not_keep_them_from_it() -> None:
    assert lines("{image: ABC, size: 9, mode: Slow}") == [
        WRONG["{image: ABC}"],
        "spec: Invalid value: slow things stay small",
    ]


def test_a_schema_without_rules_has_none_that_were_not_checked() -> None:
    plain = CustomStrategy({"type": "object", "properties": {"spec": {"type": "string"}}})
    assert [one.field for one in plain.validate({"metadata": {}, "spec": 5})] == ["spec"]


def test_a_rule_may_compare_with_what_was_before() -> None:
    assert lines("{image: xyz}", old="{image: abc}") == ["spec: Invalid value: image is immutable"]
    assert lines("{image: abc, size: 4, mode: Slow}", old="{image: abc, size: 9}") == []


def test_status_is_changed_through_its_endpoint_only() -> None:
    old = widget("{image: abc}", status={"phase": "Old"})
    changed = widget("{image: xyz}", status={"phase": "New"})
    changed["metadata"]["labels"] = {"a": "b"}
    main, status = copy.deepcopy(changed), copy.deepcopy(changed)
    strategy().prepare_update(main, old)
    strategy().prepare_status_update(status, old)
    assert (main["spec"]["image"], main["status"]["phase"], main["metadata"]["generation"]) == ("xyz", "Old", 2)
    assert (status["spec"]["image"], status["status"]["phase"], status["metadata"]) == ("abc", "New", {"name": "a"})


@pytest.mark.parametrize(("value", "generation"), [("true", 2), ("1", 1), ("2", 2)])
def test_a_generation_counts_changes_of_json_values(value: str, generation: int) -> None:
    obj, old = (widget(f"{{image: abc, free: {{a: [{one}]}}}}") for one in (value, "1"))
    strategy().prepare_update(obj, old)
    assert obj["metadata"]["generation"] == generation


def test_a_definition_with_another_default_is_a_new_generation() -> None:
    old = definition(spec__versions__0__schema__openAPIV3Schema__properties__spec__properties__free__default={"a": 1})
    new = definition(
        spec__versions__0__schema__openAPIV3Schema__properties__spec__properties__free__default={"a": True}
    )
    DefinitionStrategy().prepare_update(new, old)
    assert new["metadata"]["generation"] == 2


def test_names_that_are_left_out_follow_from_the_kind() -> None:
    obj = definition()
    assert obj["spec"]["names"] == {
        "plural": "widgets", "kind": "Widget", "shortNames": ["wg"], "singular": "widget", "listKind": "WidgetList"
    }  # fmt: skip
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"]["storedVersions"] == ["v1"]
    assert DefinitionStrategy().validate(obj) == []


SCHEMA = "spec__versions__0__schema__openAPIV3Schema"

WRONG_DEFINITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "name": (
        {"metadata__name": "widget.example.com"},
        'metadata.name: Invalid value: "widget.example.com": must be spec.names.plural+"."+spec.group',
    ),
    "scope": (
        {"spec__scope": "Odd"},
        'spec.scope: Unsupported value: "Odd": supported values: "Cluster", "Namespaced"',
    ),
    "no schema": (
        {"spec__versions__0__schema": None},
        "spec.versions[0].schema.openAPIV3Schema: Required value",
    ),
    "no type": (
        {SCHEMA: {"type": "object", "properties": {"spec": {"properties": {}}}}},
        "spec.validation.openAPIV3Schema.properties[spec].type: Required value: "
        "must not be empty for specified object fields",
    ),
    "no items": (
        {SCHEMA: {"type": "object", "properties": {"l": {"type": "array"}}}},
        "spec.validation.openAPIV3Schema.properties[l].items: Required value: must be specified",
    ),
    "a default that does not fit": (
        {SCHEMA: {"type": "object", "properties": {"n": {"type": "integer", "default": "many"}}}},
        'spec.validation.openAPIV3Schema.properties[n].default: Invalid value: "string":  in body must be of type '
        'integer: "string"',
    ),
    "a rule about nothing": (
        {SCHEMA: {"type": "object", "x-kubernetes-validations": [{"rule": "self.nothing > 1"}]}},
        "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: "
        '{"Rule":"self.nothing \\u003e 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"",'
        '"OptionalOldSelf":null}: '
        "compilation failed: ERROR: <input>:1:5: undefined field 'nothing'\n | self.nothing > 1\n | ....^",
    ),
}


@pytest.mark.parametrize(("changes", "line"), WRONG_DEFINITIONS.values(), ids=WRONG_DEFINITIONS)
def test_a_wrong_definition_is_refused(changes: dict[str, Any], line: str) -> None:
    assert [cause.line() for cause in DefinitionStrategy().validate(definition(**changes))] == [line]


def test_a_protected_group_needs_approval() -> None:
    changes = {"spec__group": "new.k8s.io", "metadata__name": "widgets.new.k8s.io"}
    [cause] = DefinitionStrategy().validate(definition(**changes))
    assert cause.field == "metadata.annotations[api-approved.kubernetes.io]"
    approved = {"metadata__annotations": {"api-approved.kubernetes.io": "https://example.com/approval"}}
    assert DefinitionStrategy().validate(definition(**changes, **approved)) == []


def test_a_rule_that_cannot_be_evaluated_is_kept_with_a_warning() -> None:
    rule = "semver(self.address).major() == 1"
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"address": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule}],
            }
        },
    }
    obj = definition(**{SCHEMA: schema})
    assert DefinitionStrategy().validate(obj) == []
    warning = f"v1: this API server cannot evaluate semver(), so this rule is not enforced: {rule}"
    assert DefinitionStrategy().warnings(obj, None) == [warning]
    [resource] = resources_of(obj)
    assert resource.strategy.validate({"metadata": {"name": "x"}, "spec": {"address": "http://x"}}) == []


def test_exactly_one_version_is_stored() -> None:
    causes = DefinitionStrategy().validate(definition(spec__versions__0__storage=False))
    assert [cause.field for cause in causes] == ["spec.versions", "status.storedVersions"]
    assert causes[0].message.endswith("must have exactly one version marked as storage version")


def test_each_served_version_is_a_resource_and_old_ones_warn() -> None:
    [version] = definition()["spec"]["versions"]
    beta = version | {"name": "v1beta1", "storage": False, "deprecated": True, "subresources": None}
    alpha = version | {"name": "v1alpha1", "storage": False, "served": False}
    found = resources_of(definition(spec__versions=[beta, alpha, version]))
    assert [one.version for one in found] == ["v1", "v1beta1"]
    assert [sub.name for sub in found[0].subresources] == ["status", "scale"]
    assert [one.deprecation for one in found] == [
        "",
        "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget",
    ]


WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://127.0.0.1/convert"}, "conversionReviewVersions": ["v1"]},
}


def converted_by_webhook(storage: str, **served: bool) -> dict[str, Any]:
    """A definition whose versions a webhook converts."""
    [version] = definition()["spec"]["versions"]
    versions = [
        version | {"name": name, "served": is_served, "storage": name == storage} for name, is_served in served.items()
    ]
    return definition(spec__versions=versions, spec__conversion=WEBHOOK)


def test_of_versions_that_a_webhook_converts_the_stored_one_is_served_alone() -> None:
    """None is called, and an object must not be shown in a shape that it does not have."""
    both = converted_by_webhook("v1", v1=True, v1beta1=True)
    assert [one.version for one in resources_of(both)] == ["v1"]
    [warning] = DefinitionStrategy().warnings(both, None)
    assert warning.endswith("so it serves only the storage version (v1), and not v1beta1")
    one = converted_by_webhook("v1", v1=True, v1beta1=False)
    assert [one.version for one in resources_of(one)] == ["v1"]
    assert DefinitionStrategy().warnings(one, None) == []
    assert DefinitionStrategy().validate(both) == DefinitionStrategy().validate(one) == []


def test_a_definition_that_needs_a_webhook_to_be_served_at_all_is_refused() -> None:
    [cause] = DefinitionStrategy().validate(converted_by_webhook("v1", v1=False, v1beta1=True))
    assert cause.field == "spec.conversion.strategy"
    assert "can serve only the storage version, but v1 is not served" in cause.message


def test_what_is_stored_keeps_its_version_where_a_webhook_would_convert_it() -> None:
    old, new = converted_by_webhook("v1beta1", v1=True, v1beta1=True), converted_by_webhook("v1", v1=True, v1beta1=True)
    [cause] = DefinitionStrategy().validate_update(new, old)
    assert cause.field == "spec.conversion.strategy"
    assert "cannot convert objects that may be stored as v1beta1" in cause.message
    assert DefinitionStrategy().validate_update(old | {"metadata": {"name": "x"}}, old) == []
    old["status"]["storedVersions"] = ["v1"]  # nothing else is there
    assert DefinitionStrategy().validate_update(new, old) == []


def test_a_version_without_a_name_is_refused_in_words() -> None:
    definition = yaml.safe_load(DEFINITION)
    del definition["spec"]["versions"][0]["name"]
    strategy = DefinitionStrategy()
    strategy.default(definition)
    strategy.prepare_create(definition)
    assert any(cause.field == "spec.versions[0].name" for cause in strategy.validate(definition))
    strategy.prepare_update(definition, yaml.safe_load(DEFINITION))
    strategy.warnings(definition, None)
