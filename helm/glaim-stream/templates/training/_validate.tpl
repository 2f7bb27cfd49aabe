{{- define "glaim-stream.validate.training" -}}
{{- $models := .Values.models }}
{{- with .Values.training }}
{{- if .enabled }}
{{- if not (has $models.source (list "claim" "objectStore")) }}
training.enabled is true but models.source is {{ $models.source }}, which takes no new version: set it to claim or objectStore.
{{- end }}
{{- if and (eq $models.source "claim") (not (trimAll "/" $models.subPath)) }}
models.subPath is required while training.enabled is true: new versions are made whole beside the repository, in its volume.
{{- end }}
{{- if and .config .existingConfigMap }}
Either training.config or training.existingConfigMap can be given, but not both.
{{- end }}
{{- if not (or .config .existingConfigMap) }}
training.config is required while training.enabled is true: --set-file training.config=plant.toml, or training.existingConfigMap.
{{- end }}
{{- if not .model }}
training.model is required while training.enabled is true: the catalogue's model that is trained anew, and rolled back.
{{- end }}
{{- if eq .data.source "topic" }}
{{- if .data.existingClaim }}
training.data.existingClaim is given but training.data.source is topic: set it to claim, or leave it out.
{{- end }}
{{- else if not .data.existingClaim }}
training.data.existingClaim is required while training.data.source is claim: a volume with the file training.data.path.
{{- end }}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) }}
training.serviceAccount.name is required while training.serviceAccount.create is false.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
