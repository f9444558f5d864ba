"""Objects changed by patches, and who owns which field.

json_patch      JSON patch and JSON merge patch
strategic       strategic merge patch
managed_fields  who set which field
apply           server-side apply
"""
