"""The handlers of requests: reading, writing and deleting objects, their subresources, and the paths that name no
object.

parts          the calls of the modules about kinds: schema, admission, field ownership, tables, conversion
answers        objects as answers
decoding       the objects of bodies and patches
write          create, update, patch
delete         delete, with grace, propagation and finalizers
listing        get, list and watch
subresources   the subresources of objects: logs, scale, binding, eviction
paths          paths that name no object: version, health, discovery; namesakes; what Slurm shows everybody
reconcilers    controllers that are the server's own: of definitions, policies, quotas; the first objects
"""
