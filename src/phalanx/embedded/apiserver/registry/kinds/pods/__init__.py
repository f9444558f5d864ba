"""The kind Pod, and the parts of it that pod templates share.

probes       liveness, readiness and startup probes
containers   the validation of containers
volumes      the validation of volumes
spec         the validation of a whole PodSpec, which templates have, too
qos          quality of service classes
defaults     the defaults of empty fields
warnings     warnings about fields that are allowed but probably a mistake
update       the fields that an update may change
pod          the strategy of the kind
"""
