"""Find a job by a name that a user typed, read its objects, pods and output, and change or end it.

streaming  run commands and forward connections in a pod
attending  follow a Job from its submission to its end; explain why a job ended or is stuck
finding    find the objects of a job by a name that a user typed
standing   the state of a job, from its objects
choosing   select jobs by their names, or by user, queue and state
changing   cancel, hold and release jobs, and set their nice value
output     read the logs of a job; watch a job's objects and pods until it has ended
"""
