"""Koordinator's quotas: the tree of ElasticQuotas, and their status.

Parts, lowest first:

    tree      translates ElasticQuota and ElasticQuotaProfile into the queue tree; creates the root quotas of
              ElasticQuotaProfiles
    usage     writes the status and annotations of quotas: used and requested amounts; computes Koordinator's
              *runtime*: the amount that each quota may use now
"""
