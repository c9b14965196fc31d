{{- define "firsttoken.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "firsttoken.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "firsttoken.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "firsttoken.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "firsttoken.selectorLabels" -}}
app.kubernetes.io/name: {{ include "firsttoken.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "firsttoken.labels" -}}
{{ include "firsttoken.selectorLabels" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Labels of an object that a value adds some to: those win over the ones of every object. */ -}}
{{- define "firsttoken.labelsWith" -}}
{{- toYaml (merge (dict) (default (dict) (last .)) (include "firsttoken.labels" (first .) | fromYaml)) }}
{{- end }}

{{- /* Of a PodMonitor and of a ServiceMonitor. */ -}}
{{- define "firsttoken.monitorMetadata" -}}
{{- $monitor := last . }}
{{- with first . -}}
name: {{ include "firsttoken.fullname" . }}
namespace: {{ $monitor.namespace | default .Release.Namespace }}
labels:
  {{- include "firsttoken.labelsWith" (list . $monitor.labels) | nindent 2 }}
{{- end }}
{{- with $monitor.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "firsttoken.monitorEndpoint" -}}
port: metrics
path: /metrics
interval: {{ .intervalSeconds }}s
{{- with .scrapeTimeoutSeconds }}
{{- if gt (int .) (int $.intervalSeconds) }}
{{- fail "scrapeTimeoutSeconds of a monitor is longer than its intervalSeconds: Prometheus takes none of it" }}
{{- end }}
scrapeTimeout: {{ . }}s
{{- end }}
# The labels namespace and name of a series are those of the InferenceDeployment, not of the operator's pod.
honorLabels: true
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "firsttoken.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "firsttoken.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: name an existing account, or set serviceAccount.create: true" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* What the pods of the operators and of `helm test` have in common: who may run them, and where. */ -}}
{{- define "firsttoken.podFields" -}}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "firsttoken.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The operator's configuration file; its keys are those of run/settings.py. */ -}}
{{- define "firsttoken.config" -}}
prometheus:
  {{- toYaml .Values.prometheus | nindent 2 }}
tickSeconds: {{ .Values.tickSeconds }}
scrapeIntervalSeconds: {{ .Values.scrapeIntervalSeconds }}
apiServer:
  {{- toYaml .Values.apiServer | nindent 2 }}
advisory: {{ .Values.advisory }}
namespaces:
  {{- toYaml .Values.namespaces | nindent 2 }}
initialStreaming: {{ .Values.initialStreaming }}
logLevel: {{ .Values.logLevel }}
sizingStore: {{ .Release.Namespace }}/{{ include "firsttoken.fullname" . }}-sizings
writesSwitch: {{ .Release.Namespace }}/{{ include "firsttoken.fullname" . }}-writes
clusterScoped: {{ .Values.rbac.clusterScoped }}
scaleKinds:
  {{- toYaml .Values.scale.kinds | nindent 2 }}
chooseVictims: {{ .Values.scale.chooseVictims }}
deviceClasses:
  {{- toYaml .Values.gpus.deviceClasses | nindent 2 }}
render: {{ .Values.render.enabled }}
prePull: {{ and .Values.render.enabled .Values.render.prePull }}
renderNamespaces:
  {{- toYaml .Values.render.namespaces | nindent 2 }}
podMonitorLabels:
  {{- toYaml .Values.render.podMonitorLabels | nindent 2 }}
port: 8080
leaderElect: true
leaseName: {{ include "firsttoken.fullname" . }}
{{- end }}

{{- /* What is scaled beside Deployments: where each kind is served, and the fields that hold its replicas where it has no
scale subresource. Each kind is there once, by its name and by its resource, as `run/settings.py` has it: policies, rights
and caches are told apart by these. */ -}}
{{- define "firsttoken.scaleKinds" -}}
{{- $file := .Files.Get "files/kinds.json" | fromJson }}
{{- $known := $file.kinds }}
{{- $names := keys $file.watched }}
{{- $resources := values $file.watched }}
{{- $kinds := list }}
{{- range .Values.scale.kinds }}
{{- if kindIs "string" . }}
{{- $kinds = append $kinds (merge (dict "kind" .) (get $known .)) }}
{{- else }}
{{- $parts := splitList "/" .apiVersion }}
{{- $kinds = append $kinds (dict "kind" .kind "group" (first $parts) "version" (last $parts) "plural" .plural "patched" list "described" true) }}
{{- end }}
{{- end }}
{{- range $kinds }}
{{- $resource := printf "%s.%s" .plural .group }}
{{- if has .kind $names }}
{{- fail (printf "scale.kinds: %s is there already; name each kind once, and none that is watched anyway" .kind) }}
{{- else if and .described (hasKey $known .kind) }}
{{- fail (printf "scale.kinds: %s is known; give its name alone" .kind) }}
{{- else if has $resource $resources }}
{{- fail (printf "scale.kinds: %s is there already; give each resource one kind" $resource) }}
{{- end }}
{{- $names = append $names .kind }}
{{- $resources = append $resources $resource }}
{{- end }}
{{- toYaml $kinds }}
{{- end }}

{{- /* What belongs to a namespace: read workloads, write their replicas and nothing else of them, status and Events. */ -}}
{{- define "firsttoken.workloadRules" -}}
- apiGroups: [firsttoken.dev]
  resources: [inferencedeployments]
  verbs: [get, list, watch]
- apiGroups: [firsttoken.dev]
  resources: [inferencedeployments/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments, replicasets]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments/scale]
  verbs: [get, patch]
{{- range $kind := include "firsttoken.scaleKinds" . | fromYamlArray }}
- apiGroups: [{{ $kind.group }}]
  resources: [{{ $kind.plural }}]
  verbs: [list, watch{{ if $kind.patched }}, get, patch{{ end }}]
{{- if not $kind.patched }}
- apiGroups: [{{ $kind.group }}]
  resources: [{{ $kind.plural }}/scale]
  verbs: [get, patch]
{{- end }}
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch{{ if .Values.scale.chooseVictims }}, patch{{ end }}]
{{- if .Values.gpus.deviceClasses }}
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims, resourceclaimtemplates]
  verbs: [list, watch]
{{- end }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch{{ if or (has "StatefulSet" .Values.scale.kinds) (has "LeaderWorkerSet" .Values.scale.kinds) }}, list, watch{{ end }}]
{{- end }}

{{- define "firsttoken.renderRules" -}}
# The objects of spec.runtime. An apply that creates needs both create and patch.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, create, patch]
{{- if has "LeaderWorkerSet" .Values.scale.kinds }}
# Replicas that take several servers.
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, create, patch]
{{- end }}
{{- if .Values.render.prePull }}
# Images that are kept on nodes, until they are not asked for any more.
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [get, list, create, patch, delete]
{{- end }}
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, create, patch]
# To name the InferenceDeployment as an owner that blocks its deletion, where admission enforces that right.
- apiGroups: [firsttoken.dev]
  resources: [inferencedeployments/finalizers]
  verbs: [update]
{{- end }}

{{- define "firsttoken.configName" -}}
{{- printf "%s-%s" (include "firsttoken.fullname" . | trunc 54 | trimSuffix "-") (include "firsttoken.config" . | sha256sum | trunc 8) }}
{{- end }}
