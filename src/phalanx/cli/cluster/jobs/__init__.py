"""One job: how users name it, its pods, its output and its end.

ending     why a job ended, or is stuck, from its objects
attending  one Job from its submission to its end
finding    from a name to the objects that a user made
standing   how far a job is
choosing   jobs by their names, or by user, queue and state
changing   its end, its hold and its nice value
following  a job's objects and pods, until it is over
output     its logs
streaming  commands and connections inside its pods
"""
