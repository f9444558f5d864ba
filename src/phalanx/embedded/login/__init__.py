"""Make the Unix users of this machine users of its cluster.

admission     the accounts of users, and policies for the fields that users may not write
coordinators  the rights of the coordinators of Slurm's accounts
quota         limits on the namespace of a user
grants        the rights of users, and the namespace of each user
server        the socket at which users log in
"""
