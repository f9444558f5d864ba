"""YuniKorn's queue configuration (`queues.yaml`), read as YuniKorn reads it, and what it becomes here.

configuration   the fields of the file, strictly: a field that is not known refuses the file
checks          what YuniKorn refuses besides: quotas, limits and rules that contradict each other
queues          the queues of the file as ours, and what has no effect here
placement/      which queue an application gets by the placement rules, and queues that are made
limits          what users and groups may have in a queue
gangs           what pods say, in our words
dialect         the three parts of the frame
journal         what happened: its events and history
rest            its REST paths, for dashboards

YuniKorn applies a file whole or not at all; so it is here. Each complaint has the line that it is about.

Source: `pkg/common/configs` and `pkg/common/resources` of apache/yunikorn-core (1.9).
"""
