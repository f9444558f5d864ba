"""Servers for any Kubernetes cluster; each runs until it is stopped.

scheduler    the scheduler
webhook      its admission webhook, for API servers before Kubernetes 1.36
visibility   Kueue's visibility API
"""
