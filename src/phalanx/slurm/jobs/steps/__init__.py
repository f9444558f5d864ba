"""Steps within an allocation: what of it is free, and their tasks, here or on the pods of the allocation.

channel     a connection whose both ends know the job's key
stepd       the daemon of a pod
booking     which step has which number, and which CPUs steps hold
layout      which task runs on which node
multi_prog  which program each task runs
report      what is said of tasks that went wrong
tasks       the processes of a step beside the script
place       where the pods of an allocation are
remote      a step on the pods of an allocation
records     what is known of each step afterwards
nodelist    the names of a job's nodes, for its launcher
"""
