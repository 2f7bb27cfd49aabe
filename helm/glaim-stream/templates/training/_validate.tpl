{{- define "glaim-stream.validate.training" -}}
{{- $models := .Values.models }}
{{- if and .Values.rollback.enabled (not .Values.training.enabled) }}
{{- if not (has $models.source (list "claim" "objectStore")) }}
rollback.enabled is true but models.source is {{ $models.source }}, from which no version can be withdrawn: set it to claim or objectStore.
{{- end }}
{{- if and (eq $models.source "claim") (not (trimAll "/" $models.subPath)) }}
models.subPath is required if rollback.enabled is true: withdrawn versions are kept beside the repository, in the same volume.
{{- end }}
{{- if not (or .Values.rollback.model .Values.training.model) }}
rollback.model is required if rollback.enabled is true: the model to roll back.
{{- end }}
{{- if and (not .Values.training.serviceAccount.create) (not .Values.training.serviceAccount.name) }}
training.serviceAccount.name is required if training.serviceAccount.create is false.
{{- end }}
{{- end }}
{{- with .Values.training }}
{{- if .enabled }}
{{- if not (has $models.source (list "claim" "objectStore")) }}
training.enabled is true but models.source is {{ $models.source }}, to which no new version can be added: set it to claim or objectStore.
{{- end }}
{{- if and (eq $models.source "claim") (not (trimAll "/" $models.subPath)) }}
models.subPath is required if training.enabled is true: new versions are assembled beside the repository, in the same volume.
{{- end }}
{{- if and .config .existingConfigMap }}
Either training.config or training.existingConfigMap can be set, but not both.
{{- end }}
{{- if not (or .config .existingConfigMap) }}
training.config is required if training.enabled is true: --set-file training.config=plant.toml, or set training.existingConfigMap.
{{- end }}
{{- if not .model }}
training.model is required if training.enabled is true: the model of the catalogue to retrain and to roll back.
{{- end }}
{{- if eq .data.source "topic" }}
{{- if .data.existingClaim }}
training.data.existingClaim is set but training.data.source is topic: set the source to claim, or remove the claim.
{{- end }}
{{- else if not .data.existingClaim }}
training.data.existingClaim is required if training.data.source is claim: a volume that contains the file training.data.path.
{{- end }}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) }}
training.serviceAccount.name is required if training.serviceAccount.create is false.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
