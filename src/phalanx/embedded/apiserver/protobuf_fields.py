"""Which number each field has in Kubernetes' protobuf messages: facts of the generated.proto files of k8s.io/api.

Only what clients send here: kubectl's imperative commands (create, drain, auth, run, expose) and what hangs below the
objects that they build. Types are not repeated; they are those of the OpenAPI definitions. `~Name=2` is a message that
protobuf nests and JSON does not. A message or number that is missing is refused by name, never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping

_TABLE = """
ObjectMeta name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation=7 creationTimestamp=8
  deletionTimestamp=9 deletionGracePeriodSeconds=10 labels=11 annotations=12 ownerReferences=13 finalizers=14
OwnerReference kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7
LabelSelector matchLabels=1 matchExpressions=2
LabelSelectorRequirement key=1 operator=2 values=3
DeleteOptions gracePeriodSeconds=1 preconditions=2 orphanDependents=3 propagationPolicy=4 dryRun=5
Preconditions uid=1 resourceVersion=2
Namespace metadata=1 spec=2 status=3
NamespaceSpec finalizers=1
NamespaceStatus phase=1 conditions=2
ConfigMap metadata=1 data=2 binaryData=3 immutable=4
Secret metadata=1 data=2 type=3 stringData=4 immutable=5
ServiceAccount metadata=1 secrets=2 imagePullSecrets=3 automountServiceAccountToken=4
ObjectReference kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7
LocalObjectReference name=1
ResourceQuota metadata=1 spec=2 status=3
ResourceQuotaSpec hard=1 scopes=2 scopeSelector=3
ResourceQuotaStatus hard=1 used=2
Service metadata=1 spec=2 status=3
ServiceSpec ports=1 selector=2 clusterIP=3 type=4 externalIPs=5 sessionAffinity=7 loadBalancerIP=8
  loadBalancerSourceRanges=9 externalName=10 externalTrafficPolicy=11 healthCheckNodePort=12 publishNotReadyAddresses=13
  clusterIPs=18 ipFamilyPolicy=17 ipFamilies=19
ServicePort name=1 protocol=2 port=3 targetPort=4 nodePort=5 appProtocol=6
ServiceStatus loadBalancer=1 conditions=2
LoadBalancerStatus ingress=1
Pod metadata=1 spec=2 status=3
PodStatus phase=1 conditions=2 message=3 reason=4 hostIP=5 podIP=6 startTime=7 containerStatuses=8 qosClass=9
  initContainerStatuses=10 nominatedNodeName=11 podIPs=12 ephemeralContainerStatuses=13 resize=14
  resourceClaimStatuses=15
  hostIPs=16 observedGeneration=17
PodTemplateSpec metadata=1 spec=2
PodSpec volumes=1 containers=2 restartPolicy=3 terminationGracePeriodSeconds=4 activeDeadlineSeconds=5 dnsPolicy=6
  nodeSelector=7 serviceAccountName=8 serviceAccount=9 nodeName=10 hostNetwork=11 hostPID=12 hostIPC=13
  securityContext=14 imagePullSecrets=15 hostname=16 subdomain=17 schedulerName=19 initContainers=20
  automountServiceAccountToken=21 tolerations=22 priorityClassName=24 priority=25 shareProcessNamespace=27
  runtimeClassName=29 enableServiceLinks=30 preemptionPolicy=31 overhead=32 setHostnameAsFQDN=35 hostUsers=37
PodSecurityContext seLinuxOptions=1 runAsUser=2 runAsNonRoot=3 supplementalGroups=4 fsGroup=5 runAsGroup=6
Toleration key=1 operator=2 value=3 effect=4 tolerationSeconds=5
Container name=1 image=2 command=3 args=4 workingDir=5 ports=6 env=7 resources=8 volumeMounts=9
  terminationMessagePath=13 imagePullPolicy=14 stdin=16 stdinOnce=17 tty=18 envFrom=19 terminationMessagePolicy=20
  restartPolicy=24
ContainerPort name=1 hostPort=2 containerPort=3 protocol=4 hostIP=5
EnvVar name=1 value=2 valueFrom=3
EnvVarSource fieldRef=1 resourceFieldRef=2 configMapKeyRef=3 secretKeyRef=4
ObjectFieldSelector apiVersion=1 fieldPath=2
ConfigMapKeySelector ~LocalObjectReference=1 key=2 optional=3
SecretKeySelector ~LocalObjectReference=1 key=2 optional=3
EnvFromSource prefix=1 configMapRef=2 secretRef=3
ConfigMapEnvSource ~LocalObjectReference=1 optional=2
SecretEnvSource ~LocalObjectReference=1 optional=2
ResourceRequirements limits=1 requests=2
VolumeMount name=1 readOnly=2 mountPath=3 subPath=4 mountPropagation=5 subPathExpr=6
Job metadata=1 spec=2 status=3
JobSpec parallelism=1 completions=2 activeDeadlineSeconds=3 selector=4 manualSelector=5 template=6 backoffLimit=7
  ttlSecondsAfterFinished=8 completionMode=9 suspend=10 backoffLimitPerIndex=12 maxFailedIndexes=13
  podReplacementPolicy=14 managedBy=15
JobStatus conditions=1 startTime=2 completionTime=3 active=4 succeeded=5 failed=6 completedIndexes=7
  uncountedTerminatedPods=8 ready=9 failedIndexes=10 terminating=11
CronJob metadata=1 spec=2 status=3
CronJobSpec schedule=1 startingDeadlineSeconds=2 concurrencyPolicy=3 suspend=4 jobTemplate=5
  successfulJobsHistoryLimit=6 failedJobsHistoryLimit=7 timeZone=8
CronJobStatus active=1 lastScheduleTime=4 lastSuccessfulTime=5
JobTemplateSpec metadata=1 spec=2
PriorityClass metadata=1 value=2 globalDefault=3 description=4 preemptionPolicy=5
PodDisruptionBudget metadata=1 spec=2 status=3
PodDisruptionBudgetSpec minAvailable=1 selector=2 maxUnavailable=3 unhealthyPodEvictionPolicy=4
PodDisruptionBudgetStatus observedGeneration=1 disruptedPods=2 disruptionsAllowed=3 currentHealthy=4 desiredHealthy=5
  expectedPods=6 conditions=7
Eviction metadata=1 deleteOptions=2
Binding metadata=1 target=2
Role metadata=1 rules=2
ClusterRole metadata=1 rules=2 aggregationRule=3
PolicyRule verbs=1 apiGroups=2 resources=3 resourceNames=4 nonResourceURLs=5
RoleBinding metadata=1 subjects=2 roleRef=3
ClusterRoleBinding metadata=1 subjects=2 roleRef=3
Subject kind=1 apiGroup=2 name=3 namespace=4
RoleRef apiGroup=1 kind=2 name=3
SelfSubjectReview metadata=1 status=2
SelfSubjectReviewStatus userInfo=1
UserInfo username=1 uid=2 groups=3 extra=4
SelfSubjectAccessReview metadata=1 spec=2 status=3
SelfSubjectAccessReviewSpec resourceAttributes=1 nonResourceAttributes=2
SelfSubjectRulesReview metadata=1 spec=2 status=3
SelfSubjectRulesReviewSpec namespace=1
SubjectRulesReviewStatus resourceRules=1 nonResourceRules=2 incomplete=3 evaluationError=4
SubjectAccessReviewStatus allowed=1 reason=2 evaluationError=3 denied=4
ResourceAttributes namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7
NonResourceAttributes path=1 verb=2
TokenReview metadata=1 spec=2 status=3
TokenReviewSpec token=1 audiences=2
TokenReviewStatus authenticated=1 user=2 error=3 audiences=4
"""


def _parsed(table: str) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for line in table.strip().replace("\n  ", " ").splitlines():
        message, *fields = line.split()
        found[message] = {int(number): name for name, _, number in (field.partition("=") for field in fields)}
    return found


# message -> number -> name of the field
FIELDS: Mapping[str, Mapping[int, str]] = _parsed(_TABLE)
