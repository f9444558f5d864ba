"""The built-in kinds. Each kind has a strategy, which sets its defaults, validates it, and limits what an update may
change.

checks       what many validations ask
generation   metadata.generation
volume_sources  the sources that volumes of pods and persistent volumes share
nodes        nodes, and where pods may be placed
pods         pods and their templates
batch        Jobs
workloads    what pods run for and read: applications, services, configuration, events, volumes
drivers      what drivers of volumes and of devices publish: CSI, dynamic resource allocation
policy       who may do what: limits, budgets, roles, admission
"""
