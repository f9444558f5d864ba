"""From changed objects to the gangs that they concern.

Rooms, lowest first:

    volume_users    which pods and Jobs name a claim, and are read again when it changes
    quota_headroom  gangs against the ResourceQuotas of their namespaces
"""
