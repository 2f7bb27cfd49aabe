{{/*
The metadata of objects. "root" is $, "component" the name of the component.
*/}}

{{/*
name, namespace, labels and annotations of an object. "name" is its name if it is not that of the component, "labels"
and "annotations" are additional ones.
*/}}
{{- define "glaim-stream.metadata" -}}
name: {{ default (include "glaim-stream.name" .) .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- merge (include "glaim-stream.labels" . | fromYaml) (default dict .labels) | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels of every object. The labels of the chart take precedence over commonLabels. */}}
{{- define "glaim-stream.labels" -}}
{{- $ours := include "glaim-stream.selector" . | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/part-of" "glaim-stream" -}}
{{- $_ := set $ours "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $ours "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- toYaml (merge $ours .root.Values.commonLabels) -}}
{{- end }}

{{/*
Labels of a pod; "values" are the values of the component. The version of the chart is left out, so that a new chart
alone restarts no pod. The labels of the selector take precedence, those of the component over commonLabels.
*/}}
{{- define "glaim-stream.pod.labels" -}}
{{- merge (include "glaim-stream.selector" . | fromYaml) .values.podLabels .root.Values.commonLabels | toYaml -}}
{{- end }}
