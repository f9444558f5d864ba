"""AppWrapper of the CodeFlare project: create, watch, recreate and remove the wrapped objects.

phases            compute the phase from conditions and pods; read retries and grace periods from annotations
first_generation  compute the phase of MCAD's AppWrapper (v1beta1)
controller        the controller, and the interface of the functions that the controller's caller supplies
"""
