{{/* How a container reads the catalogue: path, volumes and mounts. Empty values mean the one that the images carry. */}}

{{- define "glaim-stream.catalogue.given" -}}
{{- if or .Values.catalogue.inline .Values.catalogue.existingConfigMap }}yes{{ end -}}
{{- end }}

{{- define "glaim-stream.catalogue.path" -}}
{{ ternary "/etc/glaim/catalogue/groups.yaml" "/opt/glaim/groups.yaml" (ne (include "glaim-stream.catalogue.given" .) "") }}
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
