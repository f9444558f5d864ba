"""The checks and changes of Koordinator's webhooks, as admission policies.

Rooms:

    refusals    rejects invalid objects
    colocation  changes pods according to ClusterColocationProfiles
"""
