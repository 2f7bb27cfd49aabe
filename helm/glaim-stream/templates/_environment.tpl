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
- name: GLAIM_POLL_RECORDS
  value: {{ .Values.kafka.pollRecords | int64 | quote }}
- name: GLAIM_MAX_UNPACKED_BYTES
  value: {{ .Values.kafka.maxUnpackedBytes | int64 | quote }}
- name: GLAIM_COMMIT_INTERVAL_S
  value: {{ .Values.kafka.commitIntervalSeconds | quote }}
- name: GLAIM_DELIVERY
  value: {{ .Values.kafka.delivery | quote }}
- name: GLAIM_TRANSACTION_TIMEOUT_S
  value: {{ .Values.kafka.transactionTimeoutSeconds | quote }}
- name: GLAIM_SESSION_TIMEOUT_S
  value: {{ .Values.kafka.sessionTimeoutSeconds | quote }}
- name: GLAIM_LINGER_MS
  value: {{ .Values.kafka.lingerMilliseconds | int64 | quote }}
- name: GLAIM_MAX_MESSAGE_BYTES
  value: {{ .Values.kafka.maxMessageBytes | int64 | quote }}
- name: GLAIM_TIMELINESS_TARGET_S
  value: {{ .Values.monitoring.objectives.timelinessTargetSeconds | quote }}
{{ include "glaim-stream.model.env" . }}
{{ include "glaim-stream.tritonClient.env" . | trim }}
- name: GLAIM_TRITON_DEADLINE_S
  value: {{ .Values.triton.client.deadlineSeconds | quote }}
- name: GLAIM_TRITON_BATCH
  value: {{ .Values.triton.client.batch | int64 | quote }}
- name: GLAIM_TRITON_FIXED_BATCH
  value: {{ .Values.triton.client.fixedBatch | quote }}
- name: GLAIM_TRITON_IN_FLIGHT
  value: {{ .Values.triton.client.inFlight | int64 | quote }}
- name: GLAIM_BATCHES_IN_FLIGHT
  value: {{ .Values.worker.batchesInFlight | int64 | quote }}
- name: GLAIM_RECORD_BYTES
  value: {{ .Values.worker.limits.recordBytes | int64 | quote }}
- name: GLAIM_RECORD_JSON_BYTES
  value: {{ .Values.worker.limits.recordJsonBytes | int64 | quote }}
- name: GLAIM_RECORD_READINGS
  value: {{ .Values.worker.limits.recordReadings | int64 | quote }}
- name: GLAIM_BATCH_BYTES
  value: {{ .Values.worker.limits.batchBytes | int64 | quote }}
- name: GLAIM_BATCH_READINGS
  value: {{ .Values.worker.limits.batchReadings | int64 | quote }}
- name: GLAIM_PARTITION_GROUPS
  value: {{ .Values.worker.limits.partitionGroups | int64 | quote }}
- name: GLAIM_SLICE_BYTES
  value: {{ .Values.worker.limits.sliceBytes | int64 | quote }}
- name: GLAIM_BREAKER_REST_S
  value: {{ .Values.triton.client.breakerRestSeconds | quote }}
{{- if not (kindIs "invalid" .Values.worker.scoreShare) }}
- name: GLAIM_SCORE_SHARE
  value: {{ .Values.worker.scoreShare | quote }}
{{- end }}
- name: GLAIM_SCORE_LEAST
  value: {{ .Values.worker.scoreLeast | int64 | quote }}
- name: GLAIM_SHADOW_SCORES
  value: {{ .Values.worker.shadowScores | quote }}
- name: GLAIM_ADAPTIVE_INTERVALS
  value: {{ .Values.worker.adaptiveIntervals | quote }}
- name: GLAIM_METRICS_PORT
  value: {{ .Values.metrics.port | int64 | quote }}
- name: GLAIM_METRICS_HOST
  value: {{ .Values.metrics.host | quote }}
- name: GLAIM_LOOP_SILENCE_S
  value: {{ .Values.worker.loopSilenceSeconds | quote }}
# The process ends by itself, and says what is unanswered, 5 s before the kubelet kills it.
- name: GLAIM_STOP_GRACE_S
  value: {{ max 1 (sub (int64 .Values.worker.terminationGracePeriodSeconds) 5) | quote }}
- name: GLAIM_LOG_LEVEL
  value: {{ .Values.worker.logLevel }}
{{- end }}

{{/* The page, of the workers alone. */}}
{{- define "glaim-stream.page.env" -}}
{{- if .Values.page.enabled }}
- name: GLAIM_PAGE_PORT
  value: {{ .Values.page.port | int64 | quote }}
- name: GLAIM_PAGE_HOST
  value: {{ .Values.metrics.host | quote }}
- name: GLAIM_PAGE_NAMES
  value: {{ join "," .Values.page.names | quote }}
- name: GLAIM_PAGE_TOKEN_FILE
  value: /etc/glaim/page/token
{{- end }}
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
  value: {{ . | quote }}
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
