"""AppWrapper of the CodeFlare project: create, watch, recreate and remove the wrapped objects.

settings          retries and grace periods, from annotations
wrapping          the facts about the kind that the caller supplies
phases            the phase, from conditions and pods
first_generation  the phase of MCAD's AppWrapper (v1beta1)
controller        the controller
"""
