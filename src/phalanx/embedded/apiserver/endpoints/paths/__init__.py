"""Handlers of paths that name no object.

attributes         the right that a request to a path needs, whether the path is served or not
public             version, health, discovery, OpenAPI
namesakes          warnings about kinds with the same name in several API groups
slurm_view         the Slurm jobs of all users and the pods on nodes, with the fields that Slurm shows every user
slurm_numbers      job numbers for Slurm jobs; creates the Secret and the Job of a Slurm job in one commit
"""
