"""Node groups, as users write them.

option     in an option of a command: simulated groups
file       in a file for `phalanx scheduler`
providers  the groups of a file, with their providers
"""
