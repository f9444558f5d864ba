"""The kind Pod, and the parts of it that pod templates share.

probes       liveness, readiness and startup probes
containers   one container
volumes      one volume
spec         the whole PodSpec, which templates have too
qos          quality of service classes
defaults     the defaults of empty fields
warnings     the warnings about fields that are accepted and better left out
update       the fields that an update may change
pod          the strategy of the kind
"""
