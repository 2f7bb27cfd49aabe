{{/*
Environment variables, volumes and mounts for the connection to Kafka; the same for the workers, the dump of the topic
and the tests. Each template takes $.
*/}}

{{- define "glaim-stream.kafka.env" -}}
- name: GLAIM_KAFKA
  value: {{ .Values.kafka.bootstrapServers | quote }}
- name: GLAIM_SECURITY_PROTOCOL
  value: {{ include "glaim-stream.kafka.protocol" . }}
{{- with .Values.kafka.sasl }}
{{- if .enabled }}
- name: GLAIM_SASL_MECHANISM
  value: {{ .mechanism }}
{{- if eq .mechanism "OAUTHBEARER" }}
- name: GLAIM_SASL_SECRET_FILE
  value: /etc/glaim/kafka-login/token
{{- else }}
- name: GLAIM_SASL_USERNAME
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .usernameKey | quote }}}
# A file, because the worker reads it again when it changes.
- name: GLAIM_SASL_SECRET_FILE
  value: /etc/glaim/kafka-login/password
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.existingSecret }}
- name: GLAIM_SSL_CA_FILE
  value: /etc/glaim/kafka-ca/ca.crt
{{- end }}
{{- if .Values.kafka.tls.clientCertificate.existingSecret }}
- name: GLAIM_SSL_CERT_FILE
  value: /etc/glaim/kafka-client/tls.crt
- name: GLAIM_SSL_KEY_FILE
  value: /etc/glaim/kafka-client/tls.key
{{- end }}
- name: GLAIM_INPUT_TOPIC
  value: {{ .Values.kafka.inputTopic | quote }}
- name: GLAIM_OUTPUT_TOPIC
  value: {{ .Values.kafka.outputTopic | quote }}
- name: GLAIM_TOPIC_NAMES
  value: {{ .Values.kafka.topicNames | toJson | quote }}
- name: GLAIM_KAFKA_EXTRA
  value: {{ .Values.kafka.extra | toJson | quote }}
{{- with .Values.kafka.qualityTopic }}
- name: GLAIM_QUALITY_TOPIC
  value: {{ . | quote }}
{{- end }}
{{- with .Values.kafka.healthTopic }}
- name: GLAIM_HEALTH_TOPIC
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "glaim-stream.kafka.protocol" -}}
{{- $tls := .Values.kafka.tls.enabled -}}
{{- if .Values.kafka.sasl.enabled -}}
{{ ternary "SASL_SSL" "SASL_PLAINTEXT" $tls }}
{{- else -}}
{{ ternary "SSL" "PLAINTEXT" $tls }}
{{- end -}}
{{- end }}

{{- define "glaim-stream.kafka.volumes" -}}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.existingSecret }}
- name: kafka-ca
  secret:
    secretName: {{ .Values.kafka.tls.existingSecret | quote }}
    items:
      - {key: {{ .Values.kafka.tls.caKey | quote }}, path: ca.crt}
{{- end }}
{{- with .Values.kafka.tls.clientCertificate }}
{{- if .existingSecret }}
- name: kafka-client
  secret:
    secretName: {{ .existingSecret | quote }}
    items:
      - {key: {{ .certificateKey | quote }}, path: tls.crt}
      - {key: {{ .privateKeyKey | quote }}, path: tls.key}
{{- end }}
{{- end }}
{{- with .Values.kafka.sasl }}
{{- if .enabled }}
- name: kafka-login
  secret:
    secretName: {{ .existingSecret | quote }}
    items:
      {{- if eq .mechanism "OAUTHBEARER" }}
      - {key: {{ .tokenKey | quote }}, path: token}
      {{- else }}
      - {key: {{ .passwordKey | quote }}, path: password}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.kafka.mounts" -}}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.existingSecret }}
- {name: kafka-ca, mountPath: /etc/glaim/kafka-ca, readOnly: true}
{{- end }}
{{- if .Values.kafka.tls.clientCertificate.existingSecret }}
- {name: kafka-client, mountPath: /etc/glaim/kafka-client, readOnly: true}
{{- end }}
{{- if .Values.kafka.sasl.enabled }}
- {name: kafka-login, mountPath: /etc/glaim/kafka-login, readOnly: true}
{{- end }}
{{- end }}
