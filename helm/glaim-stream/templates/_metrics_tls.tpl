{{/*
TLS of the workers' metrics port: environment variables, volume and mount of the workers, and what a scraper needs. Each
template takes $.
*/}}

{{- define "glaim-stream.metricsTls.env" -}}
{{- with .Values.metrics.tls }}
{{- if .enabled }}
- name: GLAIM_METRICS_TLS_CERT
  value: /etc/glaim/metrics-tls/tls.crt
- name: GLAIM_METRICS_TLS_KEY
  value: /etc/glaim/metrics-tls/tls.key
{{- if .mutual }}
- name: GLAIM_METRICS_TLS_CLIENT_CA
  value: /etc/glaim/metrics-tls/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.metricsTls.volumes" -}}
{{- with .Values.metrics.tls }}
{{- if .enabled }}
- name: metrics-tls
  secret:
    secretName: {{ .existingSecret | quote }}
    items:
      - {key: {{ .certificateKey | quote }}, path: tls.crt}
      - {key: {{ .privateKeyKey | quote }}, path: tls.key}
      {{- if .mutual }}
      - {key: {{ .caKey | quote }}, path: ca.crt}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.metricsTls.mounts" -}}
{{- if .Values.metrics.tls.enabled }}
- {name: metrics-tls, mountPath: /etc/glaim/metrics-tls, readOnly: true}
{{- end }}
{{- end }}

{{/* Probe of a page of the worker, as a map. "root" is $, "page" its name. The kubelet checks no certificate. */}}
{{- define "glaim-stream.metricsTls.probe" -}}
{path: /health/{{ .page }}, port: metrics{{ if .root.Values.metrics.tls.enabled }}, scheme: HTTPS{{ end }}}
{{- end }}

{{/* Scheme and TLS of a monitor's endpoint. */}}
{{- define "glaim-stream.metricsTls.endpoint" -}}
{{- $service := printf "%s.%s.svc" (include "glaim-stream.name" (dict "root" . "component" "worker")) .Release.Namespace }}
{{- with .Values.metrics.tls }}
{{- if .enabled }}
scheme: https
tlsConfig:
  ca:
    secret: {name: {{ .existingSecret | quote }}, key: {{ .caKey | quote }}}
  serverName: {{ .serverName | default $service | quote }}
  {{- if .mutual }}
  cert:
    secret: {name: {{ .clientCertificate.existingSecret | quote }}, key: {{ .clientCertificate.certificateKey | quote }}}
  keySecret: {name: {{ .clientCertificate.existingSecret | quote }}, key: {{ .clientCertificate.privateKeyKey | quote }}}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.metrics" -}}
{{- $monitors := or (include "glaim-stream.monitoring.on" (dict "root" . "enabled" .Values.monitoring.podMonitor.enabled)) (include "glaim-stream.monitoring.on" (dict "root" . "enabled" .Values.monitoring.serviceMonitor.enabled)) }}
{{- with .Values.metrics.tls }}
{{- if and .enabled (not .existingSecret) }}
metrics.tls.existingSecret is required if metrics.tls.enabled is true: the name of a Secret with a certificate and its key.
{{- end }}
{{- if and (or .existingSecret .mutual .clientCertificate.existingSecret) (not .enabled) }}
metrics.tls.existingSecret, metrics.tls.mutual or metrics.tls.clientCertificate.existingSecret is set but metrics.tls.enabled is false: enable it, or remove them.
{{- end }}
{{- if and .enabled .clientCertificate.existingSecret (not .mutual) }}
metrics.tls.clientCertificate.existingSecret is set but metrics.tls.mutual is false, so no worker would request it: enable it, or remove the Secret.
{{- end }}
{{- if and .enabled .mutual $monitors (not .clientCertificate.existingSecret) }}
metrics.tls.clientCertificate.existingSecret is required if metrics.tls.mutual is true and there are monitors: the name of a Secret with the certificate with which Prometheus scrapes.
{{- end }}
{{- end }}
{{- end }}
