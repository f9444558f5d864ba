"""Manage one pod on this node.

ending          why the pod must end, when, and how much time its programs get; pure
pod_containers  the containers of the pod as a group
status_writer   the status of the pod, written to the API server
removal         delete the pod's object, and keep its logs
agent_pod       the task that manages the pod
"""
