"""Why a job waits: the number that decided it, who holds what is lacking, and until when.

Rooms, lowest first:

    consumers         who holds a resource, on nodes that a pod may use
    expected_release  when enough is expected to be given back
    filtered          nodes have capacity, but a filter turns each of them away
    preempted         what victims are told, and what preemptors are told
    never             it would not fit even if nothing ran
    no_capacity       there is no capacity now: of what, how much, who has it
    explain           which of these answers it is
    quota_shortage    quota is short: the numbers
    no_quota          quota is short, or the queue's settings say no: which limit, whose
"""
