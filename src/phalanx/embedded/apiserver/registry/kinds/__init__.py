"""The built-in kinds. Each kind has a strategy, which sets the defaults of its objects, validates them, and restricts
what an update may change.

checks       checks that many kinds share
generation   strategies that separate the status from the spec, and count metadata.generation
volume_sources  the sources that volumes of pods and persistent volumes share
nodes        nodes, and where pods may be placed
pods         pods and their templates
batch        Jobs
workloads    kinds that own pods or that pods use: applications, services, configuration, events, volumes
drivers      kinds that drivers of volumes and devices publish: CSI, dynamic resource allocation
policy       kinds about rights and limits: quotas, budgets, roles, admission
"""
