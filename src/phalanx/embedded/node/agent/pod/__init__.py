"""Manage one pod on this node.

ending          decide why and when the pod must end, and how much time its programs get; no side effects
pod_containers  the containers of the pod as a group
status_writer   write the status of the pod to the API server
removal         delete the pod's object, and keep its logs
agent_pod       the task that manages the pod
"""
