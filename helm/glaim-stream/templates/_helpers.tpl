{{/*
Names, labels, images and security contexts. Most templates take a dict: "root" is $, "component" is worker, triton,
training and so on.
*/}}

{{/*
Name of release and chart, truncated to 43 characters: a CronJob's name has at most 52, and `-training` takes 9.
*/}}
{{- define "glaim-stream.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 43 | trimSuffix "-" -}}
{{- end }}

{{/* Name of the objects of a component. */}}
{{- define "glaim-stream.name" -}}
{{ include "glaim-stream.fullname" .root }}-{{ .component }}
{{- end }}

{{/*
Labels that select the pods of a component of this release. They must not change: a StatefulSet's selector is immutable.
*/}}
{{- define "glaim-stream.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Reference of an image. "root" is $, "image" the values with repository, tag and digest. */}}
{{- define "glaim-stream.image" -}}
{{- with .root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end }}

{{/*
Service account of a component. The workers' values are at .Values.serviceAccount, those of others below their key.
*/}}
{{- define "glaim-stream.serviceAccountName" -}}
{{- $account := .root.Values.serviceAccount -}}
{{- if ne .component "worker" }}{{ $account = (index .root.Values .component).serviceAccount }}{{ end -}}
{{- default (include "glaim-stream.name" .) $account.name -}}
{{- end }}

{{/*
securityContext of a pod that complies with "restricted". Takes the component's values with runAsUser and runAsGroup.
*/}}
{{- define "glaim-stream.pod.security" -}}
runAsNonRoot: true
{{- with .runAsUser }}
runAsUser: {{ . | int64 }}
{{- end }}
{{- with .runAsGroup }}
runAsGroup: {{ . | int64 }}
fsGroup: {{ . | int64 }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* securityContext of a container that complies with "restricted", with a read-only root file system. */}}
{{- define "glaim-stream.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/*
topologySpreadConstraints. "root" is $, "component" its name, "revision" the label that differs between old and new
pods.
*/}}
{{- define "glaim-stream.spread" -}}
{{- $selector := include "glaim-stream.selector" . -}}
{{- $revision := .revision -}}
{{- $spread := (index .root.Values .component).spread -}}
{{- range $topology := list (dict "key" "topology.kubernetes.io/zone" "how" $spread.zones) (dict "key" "kubernetes.io/hostname" "how" $spread.hosts) }}
{{- if $topology.how }}
- maxSkew: 1
  topologyKey: {{ $topology.key }}
  whenUnsatisfiable: {{ $topology.how }}
  # Nodes with a taint that these pods do not tolerate do not count.
  nodeTaintsPolicy: Honor
  labelSelector:
    matchLabels: {{- $selector | nindent 6 }}
  # Pods of the old revision do not count during a roll-out.
  matchLabelKeys: [{{ $revision }}]
{{- end }}
{{- end }}
{{- end }}
