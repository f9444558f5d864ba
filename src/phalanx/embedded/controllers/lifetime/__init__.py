"""What goes, and what waits for it.

ownership           what becomes of an object whose owners go
garbage             the garbage collector
namespace           what is in a namespace that goes
ttl                 finished Jobs
pod_gc              finished pods that are too many, pods of nodes that are gone
accounts            what each namespace has from its beginning
"""
