"""The YuniKorn dialect, the part of Phalanx that reads YuniKorn's queue configuration (`queues.yaml`) and YuniKorn's
labels and annotations on pods. It also serves YuniKorn's REST endpoints.

configuration   parses `queues.yaml`; an unknown field makes the whole file invalid
checks          rejects files in which quotas, limits or placement rules contradict each other
queues          translates the queues of the file into Phalanx Queues; lists the fields that have no effect; reads the
                limits of users and groups
placement       applies the placement rules to applications, and creates queues for rules with `create`
gangs           translates the labels and annotations of pods
dialect         the interface that every dialect implements (`phalanx.dialects.frame.dialect`), for YuniKorn
journal         YuniKorn's event and history endpoints
rest            YuniKorn's other REST endpoints, for dashboards

Like YuniKorn, the dialect applies a configuration file completely or not at all. Each error message names the line that
caused the error.

Source: `pkg/common/configs` and `pkg/common/resources` of apache/yunikorn-core (1.9).
"""
