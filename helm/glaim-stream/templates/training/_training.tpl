{{/*
The steps of a retraining, one container each. All but the last are init containers: each begins when the one before has
ended well. What a step has done is kept in the run's folder of the work volume, which has the Job's name, so that another
pod of the same Job goes on where the last one was stopped, and the next Job begins anew.
*/}}
{{- define "glaim-stream.training.run" -}}/runs/$(RUN){{- end }}

{{- define "glaim-stream.training.data" -}}
{{- if eq .Values.training.data.source "topic" -}}
{{ include "glaim-stream.training.run" . }}/readings.parquet
{{- else -}}
/data/{{ trimPrefix "/" .Values.training.data.path }}
{{- end -}}
{{- end }}

{{/* Makes the run's folder, and removes those of old runs: dumps are large. */}}
{{- define "glaim-stream.training.step.workspace" -}}
- name: workspace
  command: [python, -m, training.workspace, /runs, --run, $(RUN), --keep, {{ .Values.training.work.keepRuns | int64 | quote }}]
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.training.image) | nindent 2 }}
{{- end }}

{{- define "glaim-stream.training.step.dump" -}}
- name: dump
  # --keep: a pod that goes on must train on the data that its Job began with.
  command:
    - glaim-stream
    - dump
    - --since
    - {{ .Values.training.data.since | quote }}
    - --model
    - {{ .Values.training.model | quote }}
    - --out
    - {{ include "glaim-stream.training.data" . }}
    - --keep
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.worker.image "kafka" true) | nindent 2 }}
{{- end }}

{{- define "glaim-stream.training.step.fit" -}}
- name: fit
  # Without a shell in between, so that SIGTERM reaches the training: it writes a checkpoint and ends with 143.
  command:
    - python
    - -m
    - training.fit
    - /etc/glaim/training/config.toml
    - --data
    - {{ include "glaim-stream.training.data" . }}
    {{- if eq .Values.training.data.source "topic" }}
    # The dump's own layout, whatever the configuration says of other files.
    - --layout=long
    - --time=time
    - --group=group
    - --sensor=sensor
    - --value=value
    - --separator=
    {{- end }}
    - --device
    - {{ ternary "cuda" "cpu" (eq .Values.training.device "gpu") }}
    # The next number, beside what is served.
    - --set
    - export.version=0
    - --set
    - export.name={{ .Values.training.model }}
    - --model-repo
    - {{ include "glaim-stream.models.path" (dict "root" . "component" "training") }}
    - --out
    - {{ include "glaim-stream.training.run" . }}/fit
    - --resume
    {{- with .Values.training.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.training.image "fit" true) | nindent 2 }}
{{- end }}

{{/* Old weights deleted, before there are new ones. */}}
{{- define "glaim-stream.training.step.prune" -}}
- name: prune
  command:
    - glaim-stream
    - models
    - prune
    - {{ ternary .Values.models.objectStore.uri (include "glaim-stream.models.path" (dict "root" . "component" "training")) (eq .Values.models.source "objectStore") | quote }}
    - --model
    - {{ .Values.training.model | quote }}
    - --keep
    - {{ .Values.training.keepVersions | int64 | quote }}
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.worker.image "models" true) | nindent 2 }}
{{- end }}

{{/* With an object store: what was trained is put up, the contract last. */}}
{{- define "glaim-stream.training.step.push" -}}
- name: push
  command: [glaim-stream, models, push, {{ include "glaim-stream.models.path" (dict "root" . "component" "training") }}, {{ .Values.models.objectStore.uri | quote }}]
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.worker.image "models" true) | nindent 2 }}
{{- end }}

{{/* What a step is given: "root", its "image", and "kafka", "fit" or "models" where it needs more. */}}
{{- define "glaim-stream.training.container" -}}
{{- $training := .root.Values.training -}}
image: {{ include "glaim-stream.image" . | quote }}
imagePullPolicy: {{ .image.pullPolicy }}
env:
  - name: RUN
    valueFrom:
      fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}
  {{- if .models }}
  {{- include "glaim-stream.models.env" .root | trim | nindent 2 }}
  {{- else }}
  - {name: HOME, value: /tmp}
  {{- end }}
  {{- if .kafka }}
  {{- include "glaim-stream.kafka.env" .root | trim | nindent 2 }}
  - name: GLAIM_CATALOGUE
    value: {{ include "glaim-stream.catalogue.path" .root }}
  {{- end }}
  {{- if .fit }}
  {{- with $training.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
securityContext: {{- include "glaim-stream.container.security" .root | nindent 2 }}
resources: {{- ternary (include "glaim-stream.training.resources" .root) (toYaml $training.stepResources) (eq (toString .fit) "true") | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: work, mountPath: /runs}
  {{- if .kafka }}
  {{- with include "glaim-stream.catalogue.mounts" .root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "glaim-stream.kafka.mounts" .root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- if or .fit .models }}
  {{- include "glaim-stream.models.mounts" (dict "root" .root "component" "training") | trim | nindent 2 }}
  {{- end }}
  {{- if .fit }}
  - {name: config, mountPath: /etc/glaim/training, readOnly: true}
  {{- if eq $training.data.source "claim" }}
  - {name: data, mountPath: /data, readOnly: true}
  {{- end }}
  {{- if $training.sharedMemory }}
  - {name: shared-memory, mountPath: /dev/shm}
  {{- end }}
  {{- with $training.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end }}

{{/* Resources of the fit: the values', and with device gpu the GPU, requested and limited alike. */}}
{{- define "glaim-stream.training.resources" -}}
{{- $resources := deepCopy .Values.training.resources -}}
{{- if eq .Values.training.device "gpu" -}}
{{- range list "requests" "limits" -}}
{{- $gpu := dict $.Values.training.gpu.resource ($.Values.training.gpu.count | int64) -}}
{{- $_ := set $resources . (merge $gpu (get $resources . | default dict)) -}}
{{- end -}}
{{- end -}}
{{ toYaml $resources }}
{{- end }}
