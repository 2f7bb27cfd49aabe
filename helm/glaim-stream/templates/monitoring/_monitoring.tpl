{{/* Whether an object of the Prometheus operator is wanted: "root" is $, "enabled" auto, true or false. */}}
{{- define "glaim-stream.monitoring.on" -}}
{{- $served := .root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- if or (eq (toString .enabled) "true") (and (eq (toString .enabled) "auto") $served) }}yes{{ end -}}
{{- end }}

{{/* Components with a metrics port. */}}
{{- define "glaim-stream.monitoring.components" -}}
worker{{ if .Values.triton.enabled }} triton{{ end }}
{{- end }}

{{/* An object's labels, and those by which this cluster's Prometheus finds it. "root", "labels" more of them. */}}
{{- define "glaim-stream.monitoring.labels" -}}
{{- $ours := include "glaim-stream.labels" (dict "root" .root "component" "monitoring") | fromYaml -}}
{{- toYaml (merge $ours .labels .root.Values.monitoring.labels) -}}
{{- end }}

{{/*
How a component is scraped: "root", "component". The rules and the dashboard go by these labels: `job` says what it is
whatever the release is called, `release` tells two installations of a namespace apart, `instance` is the pod's name,
which a worker keeps over its restarts.
*/}}
{{- define "glaim-stream.monitoring.endpoint" -}}
port: metrics
path: /metrics
{{- with .root.Values.monitoring.interval }}
interval: {{ . }}
{{- end }}
{{- with .root.Values.monitoring.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
relabelings:
  - {targetLabel: job, replacement: glaim-stream-{{ .component }}}
  - {targetLabel: release, replacement: {{ .root.Release.Name | quote }}}
  - {sourceLabels: [__meta_kubernetes_pod_name], targetLabel: instance}
{{- end }}

{{- define "glaim-stream.validate.monitoring" -}}
{{- $pods := include "glaim-stream.monitoring.on" (dict "root" . "enabled" .Values.monitoring.podMonitor.enabled) }}
{{- $services := include "glaim-stream.monitoring.on" (dict "root" . "enabled" .Values.monitoring.serviceMonitor.enabled) }}
{{- if and $pods $services }}
Either monitoring.podMonitor or monitoring.serviceMonitor can be enabled, but not both: every metric would be counted twice.
{{- end }}
{{- end }}
