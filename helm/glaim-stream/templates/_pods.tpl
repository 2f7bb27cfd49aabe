{{/*
What the specifications of all pods have in common. Each template takes a dict: "root" is $, "component" the name of the
component whose service account the pod has, "values" the values of the component.
*/}}

{{/*
Identity and security context of a pod. No pod uses the Kubernetes API, so no token is mounted. With service links, a
Service of the namespace would set environment variables that the programs read: one named glaim-metrics sets
GLAIM_METRICS_PORT.
*/}}
{{- define "glaim-stream.pod.identity" -}}
serviceAccountName: {{ include "glaim-stream.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .root.Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "glaim-stream.pod.security" .values | nindent 2 }}
{{- end }}

{{/* Where a pod may run, and which pods give way to it. */}}
{{- define "glaim-stream.pod.placement" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
