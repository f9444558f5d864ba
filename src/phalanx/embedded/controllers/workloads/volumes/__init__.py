"""Claims and the volumes that they are bound to.

protection   claims and volumes that are used stay
binding      claims bound, volumes made as directories of this machine, and given back; which volume suits a claim,
             and what a volume made for it is; pure
"""
