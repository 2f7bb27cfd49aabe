{{/* Maximum number of workers. */}}
{{- define "glaim-stream.autoscaling.max" -}}
{{ default (int64 .Values.kafka.partitions) (int64 .Values.autoscaling.maxReplicas) }}
{{- end }}

{{/* Minimum number of Tritons. */}}
{{- define "glaim-stream.triton.least" -}}
{{- with .Values.triton -}}
{{ ternary .replicas .autoscaling.minReplicas (eq .autoscaling.kind "none") | int64 }}
{{- end }}
{{- end }}

{{/* Scaling behavior of the HorizontalPodAutoscaler, of the chart's or of the one that KEDA creates. */}}
{{- define "glaim-stream.autoscaling.behavior" -}}
{{- with .Values.autoscaling -}}
scaleUp:
  stabilizationWindowSeconds: {{ int64 .scaleUp.stabilizationSeconds }}
  policies:
    - {type: Percent, value: {{ int64 .scaleUp.percentPerMinute }}, periodSeconds: 60}
scaleDown:
  stabilizationWindowSeconds: {{ int64 .scaleDown.stabilizationSeconds }}
  policies:
    - {type: Pods, value: 1, periodSeconds: {{ int64 .scaleDown.secondsPerWorker }}}
{{- end }}
{{- end }}

{{/* KEDA's name of the SASL mechanism. */}}
{{- define "glaim-stream.autoscaling.sasl" -}}
{{- if .Values.kafka.sasl.enabled -}}
{{ get (dict "PLAIN" "plaintext" "SCRAM-SHA-256" "scram_sha256" "SCRAM-SHA-512" "scram_sha512") .Values.kafka.sasl.mechanism }}
{{- else -}}
none
{{- end -}}
{{- end }}

{{/* secretTargetRef of the TriggerAuthentication: the Secrets that the workers use. Empty if Kafka needs none. */}}
{{- define "glaim-stream.autoscaling.secrets" -}}
{{- with .Values.kafka.sasl }}
{{- if .enabled }}
- {parameter: username, name: {{ .existingSecret | quote }}, key: {{ .usernameKey | quote }}}
- {parameter: password, name: {{ .existingSecret | quote }}, key: {{ .passwordKey | quote }}}
{{- end }}
{{- end }}
{{- with .Values.kafka.tls }}
{{- if .existingSecret }}
- {parameter: ca, name: {{ .existingSecret | quote }}, key: {{ .caKey | quote }}}
{{- end }}
{{- with .clientCertificate }}
{{- if .existingSecret }}
- {parameter: cert, name: {{ .existingSecret | quote }}, key: {{ .certificateKey | quote }}}
- {parameter: key, name: {{ .existingSecret | quote }}, key: {{ .privateKeyKey | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
