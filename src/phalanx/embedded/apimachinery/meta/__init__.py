"""The parts of the API that all kinds share.

status       errors as Status objects
resource     a served kind: its names, verbs and strategy; the user of a request
objectmeta   ObjectMeta: fields that the server sets
metadata     ObjectMeta: validation
selectors    label and field selectors
"""
