"""Patches of objects, and the managers that own the fields of an object.

json_patch       JSON patch and JSON merge patch
strategic        strategic merge patch
patch            a patch by its media type
managed_fields   who set which field
apply            server-side apply
"""
