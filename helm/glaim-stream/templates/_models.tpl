{{/*
How a component comes by the models. Each takes "root" and "component" (worker or triton). The workers read the
contracts only, Triton the weights too.
*/}}

{{/* Directory of the model repository inside the container. */}}
{{- define "glaim-stream.models.path" -}}
{{ ternary "/opt/glaim/model_repo" "/models" (eq .root.Values.models.source "image") }}
{{- end }}

{{- define "glaim-stream.models.volumes" -}}
{{- $models := .root.Values.models -}}
{{- if eq $models.source "claim" }}
- name: models
  persistentVolumeClaim:
    claimName: {{ $models.existingClaim | quote }}
    readOnly: true
{{- else if eq $models.source "inline" }}
- name: models
  configMap:
    name: {{ include "glaim-stream.name" (dict "root" .root "component" "worker") }}-contracts
    items:
      {{- range $model, $contract := $models.contracts }}
      - {key: {{ printf "%s.json" $model | quote }}, path: {{ printf "%s/contract.json" $model | quote }}}
      {{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.models.mounts" -}}
{{- if has .root.Values.models.source (list "claim" "inline") }}
- name: models
  mountPath: {{ include "glaim-stream.models.path" . }}
  readOnly: true
  {{- with .root.Values.models.subPath }}
  subPath: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Init containers; none where the models are in the image or in a volume already. */}}
{{- define "glaim-stream.models.init" -}}
{{- end }}
