"""The kinds that own pods, and the kinds that pods use.

storage        PersistentVolume, PersistentVolumeClaim and StorageClass
rollout        how the pods of a workload are created and replaced
apps           Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController; PodTemplate
service        Service
endpoints      Endpoints and EndpointSlice
network        NetworkPolicy, Ingress and IngressClass
config         ConfigMap and Secret
event          Event, of both groups
"""
