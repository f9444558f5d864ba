"""AppWrapper of the CodeFlare project: create, watch, recreate and remove the wrapped objects.

phases            the phase, from conditions and pods; retries and grace periods, from annotations
first_generation  the phase of MCAD's AppWrapper (v1beta1)
controller        the controller; the facts about the kind that the caller supplies
"""
