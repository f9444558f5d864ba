"""Koordinator's quotas: the tree of ElasticQuotas, and their status.

Rooms, lowest first:

    tree      ElasticQuota and ElasticQuotaProfile: our queue tree
    profiles  the roots that ElasticQuotaProfiles make
    runtime   how much of the cluster each quota may use now, as Koordinator counts it
    usage     what each quota uses and asks for: its status and annotations
"""
