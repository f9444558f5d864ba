"""The source of a PersistentVolume: exactly one, complete, and without a way out of its folder."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import Object, named, refusal

NFS = {"nfs": {"server": "s", "path": "/p"}}

CSI = {"csi": {"driver": "a.example", "volumeHandle": "h"}}


def volume(source: Object, **spec: Any) -> Object:
    return named(spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source, **spec})


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ({}, ["spec: Required value: must specify a volume type"]),
        ({**NFS, **CSI}, ["spec.csi: Forbidden: may not specify more than 1 volume type"]),
        ({"csi": {"nodePublishSecretRef": {"name": "s"}}}, [
            "spec.csi.driver: Required value",
            "spec.csi.volumeHandle: Required value",
            "spec.csi.nodePublishSecretRef.namespace: Required value",
        ]),
        ({"nfs": {"server": "s", "path": "p"}}, ['spec.nfs.path: Invalid value: "p": must be an absolute path']),
        ({"local": {"path": "/a/../b"}}, [
            "spec.local.path: Invalid value: \"/a/../b\": must not contain '..'",
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ]),
        ({"fc": {}}, ["spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        ({"iscsi": {"lun": 256, "iqn": "iqn", "targetPortal": "p"}}, [
            "spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
        ]),
    ],
)  # fmt: skip
def test_wrong_sources_of_volumes(source: Object, lines: list[str]) -> None:
    assert refusal("persistentvolumes", volume(source)) == lines
