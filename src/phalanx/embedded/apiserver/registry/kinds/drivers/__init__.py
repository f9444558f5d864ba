"""Kinds that drivers of volumes and devices publish. The server stores these objects, and no component of Phalanx acts
on them.

csi      CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment
claims   DeviceClass, ResourceClaim, ResourceClaimTemplate (dynamic resource allocation)
slices   ResourceSlice
"""
