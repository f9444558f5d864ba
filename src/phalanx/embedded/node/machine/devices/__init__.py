"""Devices that containers are given by name, whoever offers them.

pool        which there are, which are healthy, and who offers them
protocol    the messages of the kubelet's device plugins
plugins     device plugins, as the kubelet serves them
listed      devices that a file lists
mig         parts of NVIDIA's GPUs
amd         AMD's GPUs
"""
