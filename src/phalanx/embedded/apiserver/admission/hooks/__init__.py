"""Webhooks of the cluster's own configurations.

webhook_call  one call of a webhook
webhooks      webhooks of a configuration, in their order
"""
