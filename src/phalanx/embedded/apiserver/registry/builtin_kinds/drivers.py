"""The built-in kinds that drivers of volumes and devices publish."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource, ResourceStrategy
from phalanx.embedded.apiserver.registry.builtin_kinds.form import builtin_kind, status_of
from phalanx.embedded.apiserver.registry.kinds.drivers import claims, csi
from phalanx.embedded.apiserver.registry.kinds.drivers.slices import SliceStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.storage import ClassStrategy


def driver_kind(group: str, kind: str, plural: str, strategy: ResourceStrategy, *, spaced: bool = False) -> Resource:
    """Return a kind without subresources that drivers of volumes (group `storage`) or devices (group `resource`)
    publish."""
    return builtin_kind(f"{group}.k8s.io", "v1", group, kind, plural, strategy=strategy, namespaced=spaced)


DRIVERS: tuple[Resource, ...] = (
    builtin_kind(
        "storage.k8s.io",
        "v1",
        "storage",
        "StorageClass",
        "storageclasses",
        strategy=ClassStrategy(),
        namespaced=False,
        short_names=("sc",),
    ),
    driver_kind("storage", "CSIDriver", "csidrivers", csi.DriverStrategy()),
    driver_kind("storage", "CSINode", "csinodes", csi.NodeDriversStrategy()),
    driver_kind("storage", "CSIStorageCapacity", "csistoragecapacities", csi.CapacityStrategy(), spaced=True),
    builtin_kind(
        "storage.k8s.io",
        "v1",
        "storage",
        "VolumeAttachment",
        "volumeattachments",
        strategy=csi.AttachmentStrategy(),
        namespaced=False,
        subresources=(status_of("VolumeAttachment", "storage.k8s.io"),),
    ),
    driver_kind("resource", "DeviceClass", "deviceclasses", claims.DeviceClassStrategy()),
    builtin_kind(
        "resource.k8s.io",
        "v1",
        "resource",
        "ResourceClaim",
        "resourceclaims",
        strategy=claims.ResourceClaimStrategy(),
        subresources=(status_of("ResourceClaim", "resource.k8s.io"),),
    ),
    driver_kind(
        "resource", "ResourceClaimTemplate", "resourceclaimtemplates", claims.ClaimTemplateStrategy(), spaced=True
    ),
    driver_kind("resource", "ResourceSlice", "resourceslices", SliceStrategy()),
)
