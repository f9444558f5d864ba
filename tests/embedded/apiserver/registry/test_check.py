"""`embedded/apiserver/registry/crd/check.py`: errors of definitions, in the words of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.crd.check import definition_causes

TEXT = {"type": "string"}


def definition(**changed: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"l": {"type": "array", "items": TEXT}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema} | changed.pop("version", {})
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "a.example", "scope": "Namespaced", "names": names, "versions": [version]}
    spec |= {"conversion": {"strategy": "None"}} | changed
    return {"metadata": {"name": "things.a.example"}, "spec": spec, "status": {"storedVersions": ["v1"]}}


NOT_ASKED = "Forbidden: should not be set when strategy is not set to Webhook"
WEBHOOK = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x.example"}}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            {"version": {"selectableFields": [{"jsonPath": ".l"}, {"jsonPath": ".m"}]}},
            [
                'spec.selectableFields[0].jsonPath: Invalid value: ".l": must point to a field of type string, boolean '
                "or integer. Enum string fields and strings with formats are allowed.",
                'spec.selectableFields[1].jsonPath: Invalid value: ".m": is an invalid path: does not refer to a valid '
                "field",
            ],
        ),
        (
            {"conversion": {"strategy": "None", "webhook": WEBHOOK}},
            [f"spec.conversion.{key}: {NOT_ASKED}" for key in ("webhookClientConfig", "conversionReviewVersions")],
        ),
        (
            {"version": {"deprecationWarning": "soon"}},
            [
                'spec.versions[0].deprecationWarning: Invalid value: "soon": can only be set for deprecated versions',
            ],
        ),
        (
            {
                "version": {
                    "additionalPrinterColumns": [{"name": "L", "type": "string", "format": "x", "jsonPath": ".l"}]
                }
            },
            [
                'spec.additionalPrinterColumns[0].format: Invalid value: "x": must be one of '
                "byte,date,date-time,double,float,int32,int64,password"
            ],
        ),
        (
            {"version": {"subresources": {"scale": {"specReplicasPath": ".n", "statusReplicasPath": ".spec.n"}}}},
            [
                'spec.subresources.scale.specReplicasPath: Invalid value: ".n": should be a json path under .spec',
                'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.n": should be a json path under '
                ".status",
            ],
        ),
    ],
)
def test_a_definition_is_refused_in_the_words_of_kubernetes(changed: dict[str, Any], found: list[str]) -> None:
    assert [cause.line() for cause in definition_causes(definition(**changed))] == found
