"""AppWrapper of the CodeFlare project: what it wraps is created, watched, made again, removed.

settings          what its annotations say of retries and grace periods
wrapping          what is told of the kind, from outside
phases            how far it is, from its conditions and its pods
first_generation  the same, of MCAD's AppWrapper (v1beta1)
controller        what is done about it
"""
