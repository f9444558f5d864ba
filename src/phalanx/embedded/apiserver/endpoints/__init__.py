"""The handlers of requests: reading, writing and deleting objects, their subresources, and the paths that name no
object.

parts          calls the modules about kinds: schema, admission, field ownership, tables, conversion
answers        objects in responses
decoding       the objects in bodies and patches
write          create, update, patch
delete         delete, with grace periods, propagation policies and finalizers
listing        get, list and watch
subresources   the subresources of objects: logs, scale, binding, eviction
paths          paths that name no object: version, health, discovery, Slurm jobs
reconcilers    controllers inside the server, for definitions, policies and quotas; the objects of a new cluster
"""
