"""Assign single devices, each with an id, to containers. The devices come from several sources.

pool        the devices of all sources, and their health; devices that a file lists
plugins     serve device plugins like the kubelet; the messages between the kubelet and device plugins
gpus        find parts of NVIDIA GPUs, and AMD GPUs
"""
