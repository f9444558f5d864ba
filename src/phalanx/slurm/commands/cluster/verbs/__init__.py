"""The verbs of scontrol.

named         the live jobs that an id means
hold          hold, release, requeue, suspend, resume, top
show          show; write batch_script
nodes         update of nodes and partitions, reboot; counts and minutes, as they are typed; create, update and delete
              of reservations
update_asked  what a waiting job asks for: partition, account, size, nodes, features, memory, GPUs
update        update, of jobs and by what is named
"""
