{{/*
"yes" if an object of the Prometheus operator is enabled, else empty. "root" is $; "enabled" is auto, true or false.
*/}}
{{- define "glaim-stream.monitoring.on" -}}
{{- $served := .root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- if or (eq (toString .enabled) "true") (and (eq (toString .enabled) "auto") $served) }}yes{{ end -}}
{{- end }}

{{/* Names of the components with a metrics port, separated by spaces. */}}
{{- define "glaim-stream.monitoring.components" -}}
worker{{ if .Values.triton.enabled }} triton{{ end }}
{{- end }}

{{/*
Metadata of an object, with the labels by which Prometheus selects it. "root" is $; "name", "labels" and "annotations"
are optional.
*/}}
{{- define "glaim-stream.monitoring.metadata" -}}
{{- $labels := merge dict (default dict .labels) .root.Values.monitoring.labels -}}
{{- include "glaim-stream.metadata" (dict "root" .root "component" "monitoring" "name" .name "labels" $labels "annotations" .annotations) -}}
{{- end }}

{{/*
Scrape endpoint of a component. "root" is $, "component" its name. The rules and the dashboard select by these labels:
`job` is independent of the name of the release, `release` distinguishes two installations in a namespace, and
`instance` is the name of the pod, which a worker keeps when it restarts.
*/}}
{{- define "glaim-stream.monitoring.endpoint" -}}
port: metrics
path: /metrics
{{- if eq .component "worker" }}
{{- with include "glaim-stream.metricsTls.endpoint" .root | trim }}
{{ . }}
{{- end }}
{{- end }}
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
  {{- with .root.Values.monitoring.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.monitoring.metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.monitoring" -}}
{{- $pods := include "glaim-stream.monitoring.on" (dict "root" . "enabled" .Values.monitoring.podMonitor.enabled) }}
{{- $services := include "glaim-stream.monitoring.on" (dict "root" . "enabled" .Values.monitoring.serviceMonitor.enabled) }}
{{- if and $pods $services }}
Either monitoring.podMonitor or monitoring.serviceMonitor can be enabled, but not both: every metric would be counted twice.
{{- end }}
{{- end }}
