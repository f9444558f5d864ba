"""Admission webhooks, which the webhook configurations of the cluster define.

webhook_call  one call of a webhook
webhooks      webhooks of a configuration, in their order
"""
