"""The `World` of `phalanx.loop` on a Kubernetes API: it reports events, and carries out plans. The parts, lowest first:

slices            run long work in slices, so that other tasks can run in between
capacity_sources  the interfaces of node groups and of other clusters
plan_execution    carry out the actions of plans on gangs
kube_world        the world itself; it reports events, beginning with the first list of all objects
opening           install Phalanx's kinds, list all objects, and start the tasks of the world
"""
