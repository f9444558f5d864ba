"""Patches of objects, and the field managers, which own the fields of an object.

json_patch       JSON patch and JSON merge patch
strategic        strategic merge patch
patch            applies a patch by its media type
managed_fields   records which manager has set each field
apply            server-side apply
"""
