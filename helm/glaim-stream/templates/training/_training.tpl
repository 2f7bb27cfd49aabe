{{/*
The steps of a retraining, one container each. All except the last are init containers: each starts after the previous
one has succeeded. The results of the steps are in a folder of the work volume that is named after the Job. A new pod of
the same Job therefore continues where the previous one stopped, while the next Job starts from the beginning.
*/}}
{{- define "glaim-stream.training.run" -}}/runs/$(RUN){{- end }}

{{- define "glaim-stream.training.data" -}}
{{- if eq .Values.training.data.source "topic" -}}
{{ include "glaim-stream.training.run" . }}/readings.parquet
{{- else -}}
/data/{{ trimPrefix "/" .Values.training.data.path }}
{{- end -}}
{{- end }}

{{/* Creates the folder of the run and removes those of old runs, because dumps are large. */}}
{{- define "glaim-stream.training.step.workspace" -}}
- name: workspace
  command: [python, -m, training.workspace, /runs, --run, $(RUN), --keep, {{ .Values.training.work.keepRuns | int64 | quote }}]
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.training.image) | nindent 2 }}
{{- end }}

{{- define "glaim-stream.training.step.dump" -}}
- name: dump
  # --keep: a pod that continues a Job must train on the data with which the Job started.
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
  # No shell in between, so that SIGTERM reaches the training, which then writes a checkpoint and exits with 143.
  command:
    - python
    - -m
    - training.fit
    - /etc/glaim/training/config.toml
    - --data
    - {{ include "glaim-stream.training.data" . }}
    {{- if eq .Values.training.data.source "topic" }}
    # The layout of the dump, which overrides the layout in the configuration.
    - --time=time
    - --group=group
    - --sensor=sensor
    - --value=value
    - --separator=
    {{- end }}
    - --device
    - {{ ternary "cuda" "cpu" (eq .Values.training.device "gpu") }}
    # 0 selects the next free version number.
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

{{/* Deletes the weights of old versions before new ones are added. */}}
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

{{/* Uploads the new version to the object store, with its contract last. */}}
{{- define "glaim-stream.training.step.push" -}}
- name: push
  command: [glaim-stream, models, push, {{ include "glaim-stream.models.path" (dict "root" . "component" "training") }}, {{ .Values.models.objectStore.uri | quote }}]
  {{- include "glaim-stream.training.container" (dict "root" . "image" .Values.worker.image "models" true) | nindent 2 }}
{{- end }}

{{/*
Container of a step, except its name and command. "root" is $, "image" its image; "kafka", "fit" or "models" is true if
the step needs their environment and volumes.
*/}}
{{- define "glaim-stream.training.container" -}}
{{- $training := .root.Values.training -}}
image: {{ include "glaim-stream.image" . | quote }}
imagePullPolicy: {{ .image.pullPolicy }}
env:
  - name: RUN
    valueFrom:
      fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}
  {{- if .models }}
  {{- include "glaim-stream.models.env" (dict "root" .root "component" "training") | trim | nindent 2 }}
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

{{/* Resources of the step fit. With device gpu, the GPU is added to both requests and limits. */}}
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

{{/* "yes" if there are Jobs that roll a model back, else empty. */}}
{{- define "glaim-stream.rollback.on" -}}
{{- if or .Values.training.enabled .Values.rollback.enabled }}yes{{ end -}}
{{- end }}

{{/* "yes" if the closed form is learned by a schedule, else empty. With a key it is not: its forms have no signature. */}}
{{- define "glaim-stream.training.learns" -}}
{{- if and .Values.training.enabled .Values.training.learn.enabled (not .Values.models.trust.key) }}yes{{ end -}}
{{- end }}

{{/* Container that learns the closed form. */}}
{{- define "glaim-stream.training.learn" -}}
- name: learn
  # --json: too few rows for a form are an outcome and no failure.
  command: [glaim-stream, learn, --model, {{ .Values.training.model | quote }}, --since, {{ .Values.training.learn.since | quote }}, --json]
  image: {{ include "glaim-stream.image" (dict "root" . "image" .Values.worker.image) | quote }}
  imagePullPolicy: {{ .Values.worker.image.pullPolicy }}
  env:
    - {name: HOME, value: /tmp}
    {{- include "glaim-stream.models.trust" (dict "root" . "component" "training") | trim | nindent 4 }}
    {{- include "glaim-stream.kafka.env" . | trim | nindent 4 }}
    - name: GLAIM_CATALOGUE
      value: {{ include "glaim-stream.catalogue.path" . }}
    - name: GLAIM_MODEL_REPOSITORY
      value: {{ include "glaim-stream.models.path" (dict "root" . "component" "training") | quote }}
  securityContext: {{- include "glaim-stream.container.security" . | nindent 4 }}
  resources: {{- toYaml .Values.training.learn.resources | nindent 4 }}
  volumeMounts:
    - {name: tmp, mountPath: /tmp}
    {{- with include "glaim-stream.catalogue.mounts" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with include "glaim-stream.kafka.mounts" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- include "glaim-stream.models.mounts" (dict "root" . "component" "training") | trim | nindent 4 }}
{{- end }}

{{/*
Placement of the Jobs that roll back and release: that of the training, and the node on which other pods of the release
have the claim of the models, because a volume that one node writes cannot be mounted on another. Whether an existing
claim is of that kind is not known here, so there the node is a preference, unless rollback.nodeOfVolume says otherwise.
training.affinity takes precedence. Takes $.
*/}}
{{- define "glaim-stream.rollback.placement" -}}
{{- $values := deepCopy .Values.training -}}
{{- if eq .Values.models.source "claim" -}}
{{- $labels := omit (include "glaim-stream.selector" (dict "root" . "component" "training") | fromYaml) "app.kubernetes.io/component" -}}
{{- $term := dict "labelSelector" (dict "matchLabels" $labels) "topologyKey" "kubernetes.io/hostname" -}}
{{- $beside := dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)) -}}
{{- $ours := not (or .Values.models.existingClaim (has "ReadWriteMany" .Values.models.claim.accessModes)) -}}
{{- if or (eq .Values.rollback.nodeOfVolume "required") (and $ours (eq .Values.rollback.nodeOfVolume "auto")) -}}
{{- $beside = dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term) -}}
{{- end -}}
{{- $_ := set $values "affinity" (merge (deepCopy ($values.affinity | default dict)) (dict "podAffinity" $beside)) -}}
{{- end -}}
{{- $values | toYaml -}}
{{- end }}
