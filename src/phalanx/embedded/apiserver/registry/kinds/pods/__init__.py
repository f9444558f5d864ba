"""Pods.

probes       liveness, readiness and startup probes
containers   one container
volumes      one volume
spec         the whole PodSpec, which templates have too
qos          quality of service classes
defaults     what an empty field means
warnings     what is accepted, and better not written
update       what an update may change
pod          the strategy of the kind
"""
