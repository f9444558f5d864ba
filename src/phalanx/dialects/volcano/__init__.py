"""Volcano (`batch.volcano.sh`, `scheduling.volcano.sh`, ...): its queues, its gangs, its answers.

Rooms, lowest first:

    kinds         its kinds, and how its queues are said in our words
    definitions/  Queues and PriorityClasses: our queue tree
    gangs         which pods are one gang, and what their PodGroup says of it
    answers       the status of PodGroups and Queues
    tables        what becomes of every field, label and annotation
    settings      what becomes of each action, plugin and argument
    admission     what its webhooks refuse, as admission policies
    migration     what each object becomes, for whoever moves
    dialect       all of it, as `frame.Dialect`
"""
