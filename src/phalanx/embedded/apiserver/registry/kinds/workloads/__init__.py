"""What pods run for and read.

pod_template   PodTemplate
apps           Deployment, ReplicaSet, StatefulSet, DaemonSet
service        Service
network        NetworkPolicy
config         ConfigMap and Secret
event          Event, of both groups
storage        PersistentVolume and PersistentVolumeClaim
"""
