{{/*
Rules of NetworkPolicies that several components share. Each takes $ and writes items of `egress`, or of `ingress`.
*/}}

{{/* Names are looked up in the cluster's own service or in a cache on the node, which no label tells: by port. */}}
{{- define "glaim-stream.egress.dns" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}

{{- define "glaim-stream.egress.kafka" -}}
{{- $ports := list -}}
{{- range splitList "," .Values.kafka.bootstrapServers -}}
{{- $ports = append $ports (trim . | splitList ":" | last | int64) -}}
{{- end -}}
{{- range .Values.networkPolicy.kafkaPorts }}{{ $ports = append $ports (int64 .) }}{{ end -}}
- ports:
    {{- range $ports | uniq }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .Values.networkPolicy.kafkaTo }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Triton's gRPC, here or outside; nothing where no model is asked. */}}
{{- define "glaim-stream.egress.triton" -}}
{{- if .Values.triton.enabled -}}
- to:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" . "component" "triton") | nindent 10 }}
  ports:
    - {port: 8001, protocol: TCP}
{{- else if .Values.triton.address -}}
- ports:
    - {port: {{ .Values.triton.address | splitList ":" | last | int64 }}, protocol: TCP}
{{- end -}}
{{- end }}

{{/* The object store and the cloud's token service, by HTTPS or by the port of an endpoint of one's own. */}}
{{- define "glaim-stream.egress.objectStore" -}}
{{- if eq .Values.models.source "objectStore" -}}
{{- $own := regexFind "endpoint_override=[^&]*:[0-9]+" .Values.models.objectStore.uri | splitList ":" | last | int64 -}}
- ports:
    - {port: 443, protocol: TCP}
    {{- with $own }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end -}}
{{- end }}

{{- define "glaim-stream.egress.extra" -}}
{{- with .Values.networkPolicy.extraEgress }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Who scrapes: "root" and "port". */}}
{{- define "glaim-stream.ingress.metrics" -}}
- ports:
    - {port: {{ .port }}, protocol: TCP}
  from: {{- toYaml .root.Values.networkPolicy.metricsFrom | nindent 4 }}
{{- end }}

{{/* A whole policy: "root", "component", "ingress" and "egress" as text; what is empty is denied. */}}
{{- define "glaim-stream.networkpolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "glaim-stream.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "glaim-stream.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "glaim-stream.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- with .ingress | trim }}
  ingress:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .egress | trim }}
  egress:
    {{- . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* helm's tests: "root" and "port". */}}
{{- define "glaim-stream.ingress.tests" -}}
- ports:
    - {port: {{ .port }}, protocol: TCP}
  from:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" .root "component" "test") | nindent 10 }}
{{- end }}

{{/* The workers, who alone ask Triton for inferences. */}}
{{- define "glaim-stream.ingress.workers" -}}
- ports:
    - {port: 8001, protocol: TCP}
  from:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" . "component" "worker") | nindent 10 }}
{{- end }}

{{/* The workers' pages, for helm's tests. */}}
{{- define "glaim-stream.egress.workers" -}}
- to:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" . "component" "worker") | nindent 10 }}
  ports:
    - {port: {{ .Values.metrics.port | int64 }}, protocol: TCP}
{{- end }}
