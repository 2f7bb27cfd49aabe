{{/*
Names, labels, images and security of every object. Most take a dict: "root" is $, "component" one of worker, triton,
training and so on.
*/}}

{{/* Release and chart name. Cut at 43, for a CronJob's name has at most 52 characters, and `-training` takes 9. */}}
{{- define "glaim-stream.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 43 | trimSuffix "-" -}}
{{- end }}

{{/* Name of a component's objects. */}}
{{- define "glaim-stream.name" -}}
{{ include "glaim-stream.fullname" .root }}-{{ .component }}
{{- end }}

{{/* What tells a component's pods of this release from all others; must never change, for a StatefulSet's cannot. */}}
{{- define "glaim-stream.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "glaim-stream.labels" -}}
{{ include "glaim-stream.selector" . }}
app.kubernetes.io/part-of: glaim-stream
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* An image: "root" is $, "image" the values with repository, tag and digest. */}}
{{- define "glaim-stream.image" -}}
{{- with .root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end }}

{{/* Account of a component: the workers' is .Values.serviceAccount, others have their own below their key. */}}
{{- define "glaim-stream.serviceAccountName" -}}
{{- $account := .root.Values.serviceAccount -}}
{{- if ne .component "worker" }}{{ $account = (index .root.Values .component).serviceAccount }}{{ end -}}
{{- default (include "glaim-stream.name" .) $account.name -}}
{{- end }}

{{/* securityContext of a pod, of the standard "restricted". Takes the component's values: runAsUser and runAsGroup. */}}
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

{{/* securityContext of a container, of the standard "restricted" and with a root that nobody writes to. */}}
{{- define "glaim-stream.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* topologySpreadConstraints: "root", "component", "revision" the label that tells old pods from new during a roll-out. */}}
{{- define "glaim-stream.spread" -}}
{{- $selector := include "glaim-stream.selector" . -}}
{{- $revision := .revision -}}
{{- $spread := (index .root.Values .component).spread -}}
{{- range $topology := list (dict "key" "topology.kubernetes.io/zone" "how" $spread.zones) (dict "key" "kubernetes.io/hostname" "how" $spread.hosts) }}
{{- if $topology.how }}
- maxSkew: 1
  topologyKey: {{ $topology.key }}
  whenUnsatisfiable: {{ $topology.how }}
  # Nodes whose taints these pods do not bear are no place for them, so they do not count.
  nodeTaintsPolicy: Honor
  labelSelector:
    matchLabels: {{- $selector | nindent 6 }}
  # Pods of the revision that goes away do not count either.
  matchLabelKeys: [{{ $revision }}]
{{- end }}
{{- end }}
{{- end }}
