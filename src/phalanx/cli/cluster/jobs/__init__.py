"""One job: how users name it, its pods, and its end.

ending     why a job ended, from its objects
attending  one Job from its submission to its end
finding    from a name to the objects that a user made
"""
