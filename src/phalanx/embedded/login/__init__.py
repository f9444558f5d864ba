"""Give the Unix users of this machine access to its cluster.

admission     the accounts of users, and policies for the fields that users may not write
coordinators  grant rights to the coordinators of Slurm's accounts
quota         set limits on the namespace of a user
grants        create the namespace of each user, and grant rights to users
server        the socket at which users log in
"""
