"""The operations that requests ask for.

parts          where storage and transport meet the knowledge of kinds
answers        objects as answers
write          create, update, patch
delete         delete, with grace, propagation and finalizers
listing        get, list and watch
subresources   the subresources of objects: logs, scale, binding, eviction
paths          paths that name no object: version, health, discovery; namesakes; what Slurm shows everybody
reconcilers    controllers that are the server's own: of definitions, policies, quotas
bootstrap      what exists from the first start
"""
