"""Controllers that are the server's own: they hear of every committed object of one kind, and bring things in line.

definitions     definitions, which change what is served
type_checking   what admission policies get wrong, in their status
quota_usage     what of quotas is used, in their status
"""
