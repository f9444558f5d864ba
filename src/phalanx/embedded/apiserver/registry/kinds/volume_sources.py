"""The sources that volumes of pods and persistent volumes have in common. A volume has exactly one source, with the
fields that the source needs.

Source: validateVolumeSource and ValidatePersistentVolumeSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.status import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted

Source = Mapping[str, Any]

HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
NEEDED = {
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "hostPath": ("path",),
    "local": ("path",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "gitRepo": ("repository",),
    "ephemeral": ("volumeClaimTemplate",),
}
_CHECKED = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "local", "csi", "ephemeral", "image"),
)
_SECRETS = ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")
_DRIVER_BYTES, _LUNS = 63, 255


def chosen_source(found: Found, holder: Source, names: Sequence[str], path: str) -> str:
    """Check that a volume has exactly one source, and return the name of the source; "" if there is none. `names`: the
    names of the sources that the volume sets."""
    if not names:
        found.append(required(path, "must specify a volume type"))
        return ""
    first, *rest = sorted(names, key=_CHECKED.index)
    for extra in rest:
        field = "cephFS" if extra == "cephfs" else extra
        found.append(forbidden_field(f"{path}.{field}", "may not specify more than 1 volume type"))
    plain_source(found, first, holder[first], f"{path}.{first}")
    return first


def plain_source(found: Found, sort: str, source: Source, path: str) -> None:
    """Add the errors of a source, except in those fields that only the volumes of pods have."""
    missing = [key for key in NEEDED.get(sort, ()) if not source.get(key)]
    found += [required(f"{path}.{key}") for key in missing]
    match sort:
        case "hostPath" | "local" if not missing:
            _no_backsteps(found, source["path"], f"{path}.path")
            if (kind := source.get("type")) is not None and kind not in HOST_PATH_TYPES:
                found.append(not_supported(f"{path}.type", kind, HOST_PATH_TYPES))
        case "nfs":
            if not (place := source.get("path", "")).startswith("/"):
                found.append(invalid_value(f"{path}.path", place, "must be an absolute path"))
        case "csi":
            driver_name(found, source.get("driver", ""), f"{path}.driver")
        case "fc":
            _fibre_channel(found, source, path)
        case "iscsi":
            if not 0 <= source.get("lun", 0) <= _LUNS:
                found.append(invalid_value(f"{path}.lun", source["lun"], formats.range_error(0, _LUNS)))


def driver_name(found: Found, name: str, path: str) -> None:
    """Check the name of a volume driver, which may have capital letters."""
    if not name:
        found.append(required(path))
        return
    if len(name) > _DRIVER_BYTES:
        found.append(too_long(path, _DRIVER_BYTES))
    found += [invalid_value(path, name, problem) for problem in formats.dns_subdomain(name.lower())]


def persistent_csi(found: Found, source: Source, path: str) -> None:
    """Check the volume handle and the secrets of a persistent volume that a CSI driver provides."""
    if not source.get("volumeHandle"):
        found.append(required(f"{path}.volumeHandle"))
    for key in _SECRETS:
        if (secret := source.get(key)) is not None:
            for part, form in (("name", formats.dns_subdomain), ("namespace", formats.dns_label)):
                if not secret.get(part):
                    found.append(required(f"{path}.{key}.{part}"))
                else:
                    formatted(found, f"{path}.{key}.{part}", secret[part], form)


def _no_backsteps(found: Found, text: str, path: str) -> None:
    if ".." in text.split("/"):
        found.append(invalid_value(path, text, "must not contain '..'"))


def _fibre_channel(found: Found, source: Source, path: str) -> None:
    targets, ids = source.get("targetWWNs"), source.get("wwids")
    if not targets and not ids:
        found.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        found.append(invalid_value(f"{path}.targetWWNs", targets, text))
    if targets and source.get("lun") is None:
        found.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
