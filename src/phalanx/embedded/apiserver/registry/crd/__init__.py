"""Custom resources.

structural   schemas: structural ones, their defaults, pruning, validation
rules        x-kubernetes-validations
check        what is wrong with a definition
crd          the strategies of definitions and of what they define
"""
