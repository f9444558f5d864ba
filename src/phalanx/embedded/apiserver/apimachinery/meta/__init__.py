"""What all kinds share.

status       errors, as the API answers them
resource     a kind that is served: its names, its verbs, its strategy; who asks
objectmeta   ObjectMeta: what the server fills in
metadata     ObjectMeta: what is refused
selectors    label and field selectors
"""
