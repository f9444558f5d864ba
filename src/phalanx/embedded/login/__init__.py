"""Unix users of this machine as users of its cluster.

admission     fields that users may not write
coordinators  the rights of coordinators of Slurm's accounts
quota         limits on the namespace of a user
grants        the rights of users, and the namespace of each
server        the socket at which they log in
"""
