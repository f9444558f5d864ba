"""Unix users of this machine as users of its cluster.

account       who a Unix user is in the cluster, and the token file
admission     what they may not write
coordinators  what coordinators of Slurm's accounts may write
quota         what the namespace of each may hold
grants        what users may do, and the namespace of each
server        the socket at which they log in
"""
