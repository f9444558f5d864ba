"""What drivers of volumes and of devices publish. These kinds are stored, and no component of Phalanx acts on them.

csi      CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment
claims   DeviceClass, ResourceClaim, ResourceClaimTemplate (dynamic resource allocation)
slices   ResourceSlice
"""
