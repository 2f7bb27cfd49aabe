{{/* Release and chart name. Cut at 45: a StatefulSet's name plus the hash of its revision must fit a label's 63. */}}
{{- define "glaim-stream.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- end }}

{{- define "glaim-stream.worker.name" -}}
{{ include "glaim-stream.fullname" . }}-worker
{{- end }}

{{/* What tells the workers of this release from all other pods; must never change, for a StatefulSet's cannot. */}}
{{- define "glaim-stream.worker.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end }}

{{- define "glaim-stream.worker.labels" -}}
{{ include "glaim-stream.worker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "glaim-stream.serviceAccountName" -}}
{{- default (include "glaim-stream.worker.name" .) .Values.serviceAccount.name -}}
{{- end }}

{{- define "glaim-stream.worker.image" -}}
{{- $image := .Values.worker.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end }}

{{- define "glaim-stream.securityProtocol" -}}
{{- $tls := .Values.kafka.tls.enabled -}}
{{- if .Values.kafka.sasl.enabled -}}
{{ ternary "SASL_SSL" "SASL_PLAINTEXT" $tls }}
{{- else -}}
{{ ternary "SSL" "PLAINTEXT" $tls }}
{{- end -}}
{{- end }}
