"""Devices that are assigned to containers by name, from several sources.

pool        the devices of all sources, and their health; devices that a file lists
plugins     device plugins, as the kubelet serves them; the messages of the kubelet's device plugins
gpus        parts of NVIDIA's GPUs; AMD's GPUs
"""
