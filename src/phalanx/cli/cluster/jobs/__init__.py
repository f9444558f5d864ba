"""Find a job by a name that a user typed, and read or change its objects, its pods, its output and its end.

streaming  commands and connections inside the pods of a job
attending  one Job from its submission to its end; why a job ended, or is stuck, from its objects
finding    from a name to the objects that a user made
standing   how far a job is
choosing   jobs by their names, or by user, queue and state
changing   cancel, hold and release a job, and set its nice value
output     the logs of a job; a job's objects and pods, until the job has ended
"""
