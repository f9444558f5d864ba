"""Inside the pods of a job.

place         which pod and which container are meant
shell         a command, or a shell
cp            files
port_forward  its network
"""
