"""Devices that are assigned to containers by name, from several sources.

pool        the devices of all sources, and their health
protocol    the messages of the kubelet's device plugins
plugins     device plugins, as the kubelet serves them
listed      devices that a file lists
mig         parts of NVIDIA's GPUs
amd         AMD's GPUs
"""
