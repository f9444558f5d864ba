"""The verbs of scontrol.

values        counts and minutes, as they are typed
named         the live jobs that an id means
show          show
hold          hold, release, requeue, suspend, resume, top
script        write batch_script
told          notify, wait_job, pidinfo
nodes         update of nodes and partitions, reboot
reservations  create, update and delete of reservations
update        update, of jobs and by what is named
"""
