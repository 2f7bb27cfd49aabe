{{/*
Rules of NetworkPolicies that several components share. Unless stated otherwise, each template takes $ and writes items
of `egress` or `ingress`.
*/}}

{{/* DNS, by port only: it may be a Service or a cache on the node, and the latter has no labels. */}}
{{- define "glaim-stream.egress.dns" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts }}
    - {port: {{ int64 . }}, protocol: UDP}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
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

{{/* Triton's gRPC endpoint, inside or outside the release; empty if Triton is not used. */}}
{{- define "glaim-stream.egress.triton" -}}
{{- if .Values.triton.enabled -}}
- to:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" . "component" "triton") | nindent 10 }}
  ports:
    - {port: 8001, protocol: TCP}
{{- else if .Values.triton.address -}}
- ports:
    {{- range prepend .Values.networkPolicy.tritonPorts (.Values.triton.address | splitList ":" | last) }}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
  {{- with .Values.networkPolicy.tritonTo }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end }}

{{/*
The object store and the token service of the cloud: HTTPS, and the port of a custom endpoint. Without a Secret the
credentials come from endpoints on the node.
*/}}
{{- define "glaim-stream.egress.objectStore" -}}
{{- if eq .Values.models.source "objectStore" -}}
{{- $port := regexFind "endpoint_override=[^&]*:[0-9]+" .Values.models.objectStore.uri | splitList ":" | last | int64 -}}
- ports:
    - {port: 443, protocol: TCP}
    {{- range compact (prepend .Values.networkPolicy.objectStorePorts $port) }}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
  {{- with .Values.networkPolicy.objectStoreTo }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- if not .Values.models.objectStore.existingSecret }}
{{- range .Values.networkPolicy.identityEndpoints }}
- to:
    - ipBlock: {cidr: {{ .cidr }}}
  ports:
    {{- range .ports }}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}
{{- end }}

{{- define "glaim-stream.egress.extra" -}}
{{- with .Values.networkPolicy.extraEgress }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "glaim-stream.ingress.extra" -}}
{{- with .Values.networkPolicy.extraIngress }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Scrapes. "root" is $, "port" the metrics port. Without peers there is no rule: an empty `from` admits everybody. */}}
{{- define "glaim-stream.ingress.metrics" -}}
{{- $port := .port -}}
{{- with .root.Values.networkPolicy.metricsFrom -}}
- ports:
    - {port: {{ $port }}, protocol: TCP}
  from: {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end }}

{{/* Viewers of the page. Without peers there is no rule, as for scrapes. */}}
{{- define "glaim-stream.ingress.page" -}}
{{- if and .Values.page.enabled .Values.networkPolicy.pageFrom -}}
- ports:
    - {port: {{ .Values.page.port | int64 }}, protocol: TCP}
  from: {{- toYaml .Values.networkPolicy.pageFrom | nindent 4 }}
{{- end -}}
{{- end }}

{{/*
A NetworkPolicy. "root" is $, "component" its name; "ingress" and "egress" are YAML text. An empty one denies all
traffic.
*/}}
{{- define "glaim-stream.networkpolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{- include "glaim-stream.metadata" . | nindent 2 }}
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

{{/* The Helm tests. "root" is $, "port" the port that they connect to. */}}
{{- define "glaim-stream.ingress.tests" -}}
- ports:
    - {port: {{ .port }}, protocol: TCP}
  from:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" .root "component" "test") | nindent 10 }}
{{- end }}

{{/* The workers, which call Triton. */}}
{{- define "glaim-stream.ingress.workers" -}}
- ports:
    - {port: 8001, protocol: TCP}
  from:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" . "component" "worker") | nindent 10 }}
{{- end }}

{{/* The health pages of the workers, for the Helm tests. */}}
{{- define "glaim-stream.egress.workers" -}}
- to:
    - podSelector:
        matchLabels: {{- include "glaim-stream.selector" (dict "root" . "component" "worker") | nindent 10 }}
  ports:
    - {port: {{ .Values.metrics.port | int64 }}, protocol: TCP}
{{- end }}
