{{/* Path, volumes and mounts of the catalogue. If no catalogue is given, containers use the one in their image. */}}

{{- define "glaim-stream.catalogue.given" -}}
{{- if or .Values.catalogue.inline .Values.catalogue.existingConfigMap }}yes{{ end -}}
{{- end }}

{{- define "glaim-stream.catalogue.path" -}}
{{ ternary "/etc/glaim/catalogue/groups.yaml" "/opt/glaim/groups.yaml" (ne (include "glaim-stream.catalogue.given" .) "") }}
{{- end }}

{{/*
"yes" if the workers learn closed forms, so that they write in the model repository, else empty. The chart cannot read
an existing ConfigMap, nor the catalogue of the image: worker.learns says it for both. Takes $.
*/}}
{{- define "glaim-stream.catalogue.learns" -}}
{{- $learns := .Values.worker.learns -}}
{{- range (.Values.catalogue.inline | fromYaml).models -}}
{{- if and (kindIs "map" .) (eq (toString .learn) "true") }}{{ $learns = true }}{{ end -}}
{{- end -}}
{{- if $learns }}yes{{ end -}}
{{- end }}

{{- define "glaim-stream.catalogue.volumes" -}}
{{- if include "glaim-stream.catalogue.given" . }}
- name: catalogue
  configMap:
    {{- with .Values.catalogue }}
    name: {{ default (printf "%s-catalogue" (include "glaim-stream.name" (dict "root" $ "component" "worker"))) .existingConfigMap }}
    items:
      - key: {{ ternary .existingConfigMapKey "groups.yaml" (ne .existingConfigMap "") | quote }}
        path: groups.yaml
    {{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.catalogue.mounts" -}}
{{- if include "glaim-stream.catalogue.given" . }}
- {name: catalogue, mountPath: /etc/glaim/catalogue, readOnly: true}
{{- end }}
{{- end }}
