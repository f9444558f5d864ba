"""Handlers of paths that name no object.

attributes         the right that a path asks for, whatever is served
public             version, health, discovery, OpenAPI
namesakes          paths where nothing is, while a kind of the same name in another group has it
slurm_view         all users' Slurm jobs and how busy nodes are, as far as Slurm shows them
slurm_numbers      job numbers of Slurm; the Secret and the Job of a Slurm job in one commit
"""
