{{/*
Settings of the worker as environment variables (glaim_stream/core/settings.py). int64 formats integers: Helm parses numbers
as floats and would write a million as 1e+06.
*/}}
{{- define "glaim-stream.worker.env" -}}
{{ include "glaim-stream.kafka.env" . }}
- name: GLAIM_CONSUMER_GROUP
  value: {{ .Values.kafka.consumerGroup | quote }}
# Static membership: a pod keeps its name, so a restart within the session timeout moves no partition.
- name: GLAIM_INSTANCE_ID
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: GLAIM_PARTITIONS
  value: {{ .Values.kafka.partitions | int64 | quote }}
- name: GLAIM_REPLICATION_FACTOR
  value: {{ .Values.kafka.replicationFactor | int64 | quote }}
- name: GLAIM_DELIVERY
  value: {{ .Values.kafka.delivery | quote }}
- name: GLAIM_MAX_MESSAGE_BYTES
  value: {{ .Values.kafka.maxMessageBytes | int64 | quote }}
{{ include "glaim-stream.model.env" . }}
{{ include "glaim-stream.tritonClient.env" . | trim }}
- name: GLAIM_TRITON_DEADLINE_S
  value: {{ .Values.triton.client.deadlineSeconds | quote }}
- name: GLAIM_TRITON_BATCH
  value: {{ .Values.triton.client.batch | int64 | quote }}
- name: GLAIM_TRITON_FIXED_BATCH
  value: {{ .Values.triton.client.fixedBatch | quote }}
- name: GLAIM_RECORD_MB
  value: {{ .Values.worker.limits.recordMegabytes | int64 | quote }}
- name: GLAIM_PARTITION_GROUPS
  value: {{ .Values.worker.limits.partitionGroups | int64 | quote }}
- name: GLAIM_DEAD_LETTER_SHARE
  value: {{ .Values.worker.deadLetterShare | quote }}
{{- if not (kindIs "invalid" .Values.worker.scoreShare) }}
- name: GLAIM_SCORE_SHARE
  value: {{ .Values.worker.scoreShare | quote }}
{{- end }}
- name: GLAIM_METRICS_PORT
  value: {{ .Values.metrics.port | int64 | quote }}
- name: GLAIM_METRICS_HOST
  value: {{ .Values.metrics.host | quote }}
- name: GLAIM_LOG_LEVEL
  value: {{ .Values.worker.logLevel }}
{{- end }}

{{/* The page, of the workers alone. */}}
{{- define "glaim-stream.page.env" -}}
{{- if .Values.page.enabled }}
- name: GLAIM_PAGE
  value: {{ printf "%s:%d" (include "glaim-stream.page.host" .) (.Values.page.port | int64) | quote }}
- name: GLAIM_PAGE_TOKEN_FILE
  value: /etc/glaim/page/token
{{- end }}
{{- end }}

{{/* An address of IPv6 stands in brackets before a port. */}}
{{- define "glaim-stream.page.host" -}}
{{ ternary (printf "[%s]" .Values.metrics.host) .Values.metrics.host (contains ":" .Values.metrics.host) }}
{{- end }}

{{/* Catalogue, contracts and imputer. */}}
{{- define "glaim-stream.model.env" -}}
- name: GLAIM_CATALOGUE
  value: {{ include "glaim-stream.catalogue.path" . }}
- name: GLAIM_MODEL_REPOSITORY
  value: {{ include "glaim-stream.models.path" (dict "root" . "component" "worker") }}
{{ include "glaim-stream.models.trust" (dict "root" . "component" "worker") }}
- name: GLAIM_IMPUTER
  value: {{ .Values.worker.imputer }}
{{- with include "glaim-stream.triton.address" . }}
- name: GLAIM_TRITON
  value: {{ printf "%s%s" (ternary "grpcs://" "" $.Values.triton.client.tls.enabled) . | quote }}
{{- end }}
{{- end }}

{{/*
host:port of Triton's gRPC endpoint. The short name needs one look-up, in the namespace of the pods; a name with dots is
looked up in several search domains.
*/}}
{{- define "glaim-stream.triton.address" -}}
{{- if .Values.triton.enabled -}}
{{ include "glaim-stream.name" (dict "root" . "component" "triton") }}:8001
{{- else -}}
{{ .Values.triton.address }}
{{- end -}}
{{- end }}
