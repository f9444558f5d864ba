"""The verbs of scontrol.

named         find the jobs with an id or a name
hold          hold, release, requeue, suspend, resume, top; notify, pidinfo, listpids, errnumstr, wait_job
show          show; write
nodes         update of nodes and partitions; reboot; create, update and delete of reservations
update_forms  the parameters of an update of a request, and the form of their values
update_asked  change the request of a pending job: partition, account, size, nodes, features, memory, GPUs
update        update: change a job, or pass the change to the module for the named entity
"""
