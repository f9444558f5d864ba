"""What a container may use of the machine, by control groups (cgroups(7)).

limits         what the kernel is told, as files and their contents, in both versions
device_filter  device files that a group may not open
groups         the groups of containers: made, written, removed
"""
