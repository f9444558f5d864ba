"""Values in messages of validation: internal Go types leave nothing out, and two of them differ line by line."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import shown
from phalanx.embedded.apimachinery.schema.gotypes.internal import changes, internal


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("policy.PodDisruptionBudgetSpec", {"minAvailable": 1, "maxUnavailable": 1, "selector": {}},
         '{"MinAvailable":1,"Selector":{},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}'),
        ("rbac.RoleRef", {"name": "view", "kind": "ClusterRole", "apiGroup": "g"},
         '{"APIGroup":"g","Kind":"ClusterRole","Name":"view"}'),
        ("*batch.SuccessPolicy", {"rules": [{"succeededCount": 1}]},
         '{"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}'),
        ("*batch.SuccessPolicy", None, "null"),
        ("*meta.LabelSelector", {"matchExpressions": [{"operator": "In", "key": "a", "values": ["b"]}],
                                 "matchLabels": {"d": "e", "c": "<"}},
         '{"matchLabels":{"c":"\\u003c","d":"e"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}'),
        ("core.ResourceRequirements", {"limits": {"cpu": "1", "a": "2"}},
         '{"Limits":{"a":"2","cpu":"1"},"Requests":null,"Claims":null}'),
    ],
)  # fmt: skip
def test_values_of_internal_types(kind: str, value: Any, text: str) -> None:
    assert shown(internal(value, kind)) == text


def test_a_template_has_its_metadata_inside_and_a_probe_its_handler() -> None:
    probe = {"tcpSocket": {"port": "http"}, "periodSeconds": 5}
    spec = {"containers": [{"name": "c", "livenessProbe": probe}], "hostNetwork": True}
    found = internal({"metadata": {"labels": {"a": "b"}}, "spec": spec}, "core.PodTemplateSpec")
    assert list(found) == ["labels", "Spec"]
    assert found["Spec"]["SecurityContext"]["HostNetwork"] is True
    container = found["Spec"]["Containers"][0]
    assert list(container)[:4] == ["Name", "Image", "Command", "Args"]
    assert container["LivenessProbe"]["TCPSocket"] == {"Port": "http", "Host": ""}
    assert container["LivenessProbe"]["HTTPGet"] is None


def test_the_differences_of_two_values() -> None:
    old = {"server": "s", "path": "/a<b"}
    assert changes({"nfs": old}, {"nfs": {**old, "readOnly": True}}, "core.PersistentVolumeSource") == (
        "@@ -6,7 +6,7 @@\n"
        '  "NFS": {\n'
        '   "Server": "s",\n'
        '   "Path": "/a\\u003cb",\n'
        '-  "ReadOnly": false\n'
        '+  "ReadOnly": true\n'
        "  },\n"
        '  "RBD": null,\n'
        '  "Quobyte": null,\n'
    )
    assert changes({}, {}, "core.PodSpec") == ""
