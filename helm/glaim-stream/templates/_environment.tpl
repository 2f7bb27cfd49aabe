{{/*
The worker's settings, one variable each (glaim_stream/settings.py). Whole numbers go through int64: values are floats
to Helm, and a million would be written 1e+06.
*/}}
{{- define "glaim-stream.worker.env" -}}
- name: GLAIM_KAFKA
  value: {{ .Values.kafka.bootstrapServers | quote }}
- name: GLAIM_SECURITY_PROTOCOL
  value: {{ include "glaim-stream.securityProtocol" . }}
{{- with .Values.kafka.sasl }}
{{- if .enabled }}
- name: GLAIM_SASL_MECHANISM
  value: {{ .mechanism }}
- name: GLAIM_SASL_USERNAME
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .usernameKey | quote }}}
- name: GLAIM_SASL_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .passwordKey | quote }}}
{{- end }}
{{- end }}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.existingSecret }}
- name: GLAIM_SSL_CA_FILE
  value: /etc/glaim/kafka-ca/ca.crt
{{- end }}
- name: GLAIM_INPUT_TOPIC
  value: {{ .Values.kafka.inputTopic | quote }}
- name: GLAIM_OUTPUT_TOPIC
  value: {{ .Values.kafka.outputTopic | quote }}
{{- with .Values.kafka.deadLetterTopic }}
- name: GLAIM_DEAD_LETTER_TOPIC
  value: {{ . | quote }}
{{- end }}
{{- with .Values.kafka.lateTopic }}
- name: GLAIM_LATE_TOPIC
  value: {{ . | quote }}
{{- end }}
{{- with .Values.kafka.outageTopic }}
- name: GLAIM_OUTAGE_TOPIC
  value: {{ . | quote }}
{{- end }}
- name: GLAIM_CONSUMER_GROUP
  value: {{ .Values.kafka.consumerGroup | quote }}
# Static membership: the pod's name survives its restarts, so a restart within the session timeout moves no partition.
- name: GLAIM_INSTANCE_ID
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: GLAIM_PARTITIONS
  value: {{ .Values.kafka.partitions | int64 | quote }}
- name: GLAIM_REPLICATION_FACTOR
  value: {{ .Values.kafka.replicationFactor | int64 | quote }}
- name: GLAIM_POLL_RECORDS
  value: {{ .Values.kafka.pollRecords | int64 | quote }}
- name: GLAIM_COMMIT_INTERVAL_S
  value: {{ .Values.kafka.commitIntervalSeconds | quote }}
- name: GLAIM_SESSION_TIMEOUT_S
  value: {{ .Values.kafka.sessionTimeoutSeconds | quote }}
- name: GLAIM_LINGER_MS
  value: {{ .Values.kafka.lingerMilliseconds | int64 | quote }}
- name: GLAIM_MAX_MESSAGE_BYTES
  value: {{ .Values.kafka.maxMessageBytes | int64 | quote }}
- name: GLAIM_CATALOGUE
  value: /etc/glaim/catalogue/groups.yaml
- name: GLAIM_MODEL_REPOSITORY
  value: /etc/glaim/models
- name: GLAIM_IMPUTER
  value: {{ .Values.worker.imputer }}
{{- with .Values.triton.address }}
- name: GLAIM_TRITON
  value: {{ . | quote }}
{{- end }}
- name: GLAIM_TRITON_DEADLINE_S
  value: {{ .Values.triton.deadlineSeconds | quote }}
- name: GLAIM_TRITON_BATCH
  value: {{ .Values.triton.batch | int64 | quote }}
- name: GLAIM_TRITON_FIXED_BATCH
  value: {{ .Values.triton.fixedBatch | quote }}
- name: GLAIM_TRITON_IN_FLIGHT
  value: {{ .Values.triton.inFlight | int64 | quote }}
- name: GLAIM_BATCHES_IN_FLIGHT
  value: {{ .Values.worker.batchesInFlight | int64 | quote }}
- name: GLAIM_BREAKER_REST_S
  value: {{ .Values.triton.breakerRestSeconds | quote }}
- name: GLAIM_FALLBACK_LOCAL
  value: {{ .Values.worker.fallbackLocal | quote }}
- name: GLAIM_SCORE_SHARE
  value: {{ .Values.worker.scoreShare | quote }}
- name: GLAIM_SCORE_LEAST
  value: {{ .Values.worker.scoreLeast | quote }}
- name: GLAIM_METRICS_PORT
  value: {{ .Values.metrics.port | int64 | quote }}
- name: GLAIM_METRICS_HOST
  value: {{ .Values.metrics.host | quote }}
- name: GLAIM_LOG_LEVEL
  value: {{ .Values.worker.logLevel }}
{{- end }}
