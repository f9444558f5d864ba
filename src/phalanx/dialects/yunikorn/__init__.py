"""The YuniKorn dialect: it reads YuniKorn's queue configuration (`queues.yaml`) and the labels and annotations of pods,
and serves YuniKorn's REST endpoints.

configuration   parses the file; an unknown field makes the whole file invalid
checks          the other reasons to reject a file: quotas, limits and rules that contradict each other
queues          translates the queues of the file into Phalanx Queues, and notes the fields without an effect; the
                limits of users and groups in a queue
placement       applies the placement rules to applications, and creates queues for rules with `create`
gangs           translates the labels and annotations of pods
dialect         implements the three parts of the frame (`phalanx.dialects.frame.dialect`)
journal         YuniKorn's event and history endpoints
rest            YuniKorn's other REST endpoints, for dashboards

Like YuniKorn, the dialect applies a configuration file completely or not at all. Each error message names the line that
caused the error.

Source: `pkg/common/configs` and `pkg/common/resources` of apache/yunikorn-core (1.9).
"""
