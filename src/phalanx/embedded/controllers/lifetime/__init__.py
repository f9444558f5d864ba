"""Controllers that delete objects, and the objects that depend on them.

ownership             decide whether an object with deleted owners is deleted as well
watched_kinds         watch every kind that the server can delete
owner_states          find out whether the owner of an object exists
garbage               the garbage collector
pod_gc                delete surplus finished pods, pods of deleted nodes, and finished Jobs after their time to live
pod_group_protection  keep a deleted PodGroup until its pods have ended
namespace             delete the content of terminating namespaces; create the default objects of each namespace
"""
