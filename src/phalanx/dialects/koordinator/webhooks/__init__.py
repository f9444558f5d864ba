"""What Koordinator's webhooks do, as admission policies.

Rooms:

    refusals    what they refuse
    colocation  what they change of pods, for ClusterColocationProfiles
"""
