{{/*
Access of a component to the model repository. Unless stated otherwise, each template takes "root" and "component"
(worker, triton or training). The workers read only the contracts, Triton also the weights; the training writes new
versions, and workers that learn ("learns") write closed forms.
*/}}

{{/*
Mount path of the volume with the models. glaim_stream/models describes what it contains beside the repository.
*/}}
{{- define "glaim-stream.models.root" -}}
{{ ternary "/opt/glaim" "/models" (eq .root.Values.models.source "image") }}
{{- end }}

{{/* Path of the model repository in the container. */}}
{{- define "glaim-stream.models.path" -}}
{{- $models := .root.Values.models -}}
{{- if eq $models.source "image" -}}
/opt/glaim/model_repo
{{- else if eq $models.source "inline" -}}
/models
{{- else if eq $models.source "claim" -}}
/models{{ with trimAll "/" $models.subPath }}/{{ . }}{{ end }}
{{- else -}}
/models/repository
{{- end -}}
{{- end }}

{{/* Name of the claim, existing or created by the chart. Takes $. */}}
{{- define "glaim-stream.models.claim" -}}
{{ default (include "glaim-stream.name" (dict "root" . "component" "models")) .Values.models.existingClaim }}
{{- end }}

{{/* "yes" if versions can change while Triton runs, so that Triton must poll the repository, else empty. Takes $. */}}
{{- define "glaim-stream.models.change" -}}
{{- $models := .Values.models -}}
{{- if or (eq $models.source "claim") (and (eq $models.source "objectStore") $models.objectStore.refreshSeconds) }}yes{{ end -}}
{{- end }}

{{/*
For Triton the volume of a claim is read-only, so that the kubelet does not change the group of its files, which is that
of the workers and the training. A worker fills a claim that the chart created, so it needs write access to the volume.
*/}}
{{- define "glaim-stream.models.volumes" -}}
{{- $models := .root.Values.models -}}
{{- if eq $models.source "claim" }}
- name: models
  persistentVolumeClaim:
    claimName: {{ include "glaim-stream.models.claim" .root | quote }}
    {{- if not (or .learns (eq .component "training") (and (eq .component "worker") (not $models.existingClaim))) }}
    readOnly: true
    {{- end }}
{{- else if eq $models.source "objectStore" }}
- name: models
  emptyDir: {sizeLimit: {{ $models.objectStore.sizeLimit | quote }}}
{{- else if eq $models.source "inline" }}
- name: models
  configMap:
    name: {{ include "glaim-stream.name" (dict "root" .root "component" "worker") }}-contracts
    items:
      {{- range $model, $contract := $models.contracts }}
      - {key: {{ printf "%s.json" $model | quote }}, path: {{ printf "%s/contract.json" $model | quote }}}
      {{- end }}
{{- end }}
{{- if and (eq .component "triton") (include "glaim-stream.models.copied" .root) }}
- name: checked-models
  emptyDir: {sizeLimit: {{ $models.objectStore.sizeLimit | quote }}}
{{- end }}
{{- end }}

{{- define "glaim-stream.models.mounts" -}}
{{- if and (eq .component "triton") (include "glaim-stream.models.copied" .root) }}
- {name: checked-models, mountPath: /checked, readOnly: true}
{{- else if ne .root.Values.models.source "image" }}
- {name: models, mountPath: {{ include "glaim-stream.models.root" . }}, readOnly: {{ not (or .learns (eq .component "training")) }}}
{{- end }}
{{- end }}

{{/* Init containers: download the models from an object store, or fill a claim that the chart created. */}}
{{- define "glaim-stream.models.init" -}}
{{- $models := .root.Values.models -}}
{{- include "glaim-stream.models.init.fill" . }}
{{- if and (eq .component "triton") (include "glaim-stream.models.copied" .root) }}
- name: check-models
  command: [glaim-stream, models, fetch, {{ include "glaim-stream.models.path" . }}, --to, /checked/repository, --mirror]
  {{- include "glaim-stream.models.fetcher" . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "glaim-stream.models.init.fill" -}}
{{- $models := .root.Values.models -}}
{{- if eq $models.source "objectStore" }}
- name: fetch-models
  # A bucket may be filled, or a role granted, after the installation.
  command: [glaim-stream, models, fetch, {{ $models.objectStore.uri | quote }}, --to, {{ include "glaim-stream.models.path" . }}, --mirror{{ if ne .component "training" }}, --wait, "3600"{{ end }}]
  {{- include "glaim-stream.models.fetcher" . | nindent 2 }}
{{- else if and (eq $models.source "claim") (eq .component "triton") }}
- name: wait-for-models
  # The claim is filled later, by a worker or by hand. Triton does not start without a repository, so it waits.
  command: [glaim-stream, models, wait, {{ include "glaim-stream.models.path" . }}]
  {{- include "glaim-stream.models.fetcher" . | nindent 2 }}
{{- else if and (eq $models.source "claim") (not $models.existingClaim) }}
- name: fill-models
  # Fills an empty volume with the models of the image. --missing-only keeps existing models.
  command: [glaim-stream, models, fetch, /opt/glaim/model_repo, --to, {{ include "glaim-stream.models.path" . }}, --missing-only]
  {{- include "glaim-stream.models.fetcher" . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Sidecar that follows an object store or a claim, so that adding or withdrawing a version needs no restart. */}}
{{- define "glaim-stream.models.sidecar" -}}
{{- if and (eq .component "triton") (include "glaim-stream.models.copied" .root) }}
- name: follow-models
  command:
    - glaim-stream
    - models
    - fetch
    - {{ include "glaim-stream.models.path" . }}
    - --to
    - /checked/repository
    - --mirror
    - --every
    - {{ .root.Values.triton.pollSeconds | int64 | quote }}
  {{- include "glaim-stream.models.fetcher" . | nindent 2 }}
{{- end }}
{{- $store := .root.Values.models.objectStore -}}
{{- if and (eq .root.Values.models.source "objectStore") $store.refreshSeconds }}
- name: follow-models
  command:
    - glaim-stream
    - models
    - fetch
    - {{ $store.uri | quote }}
    - --to
    - {{ include "glaim-stream.models.path" . }}
    - --mirror
    - --every
    - {{ $store.refreshSeconds | int64 | quote }}
  {{- include "glaim-stream.models.fetcher" . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "glaim-stream.models.fetcher" -}}
image: {{ include "glaim-stream.image" (dict "root" .root "image" .root.Values.worker.image) | quote }}
imagePullPolicy: {{ .root.Values.worker.image.pullPolicy }}
env:
  {{- include "glaim-stream.models.env" . | trim | nindent 2 }}
securityContext: {{- include "glaim-stream.container.security" .root | nindent 2 }}
resources: {{- toYaml .root.Values.models.resources | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: models, mountPath: {{ include "glaim-stream.models.root" . }}, readOnly: {{ and (eq .component "triton") (eq .root.Values.models.source "claim") }}}
  {{- if and (eq .component "triton") (include "glaim-stream.models.copied" .root) }}
  - {name: checked-models, mountPath: /checked}
  {{- end }}
{{- end }}

{{/*
What a version must show before it is used. The training needs no signatures: it uses no model, and the number of a
version that waits for its signature is taken.
*/}}
{{- define "glaim-stream.models.trust" -}}
{{- $key := ternary "" .root.Values.models.trust.key (eq .component "training") -}}
{{- with .root.Values.models.trust -}}
- name: GLAIM_MANIFEST_KEY
  value: {{ $key | quote }}
- name: GLAIM_MODEL_OPERATORS
  value: {{ join "," .operators | quote }}
{{- end -}}
{{- end }}

{{/*
"yes" if Triton serves checked copies of the versions of a claim, else empty: Triton reads the files itself, so what is
checked in the claim could be another file when it is loaded. Takes $.
*/}}
{{- define "glaim-stream.models.copied" -}}
{{- $trust := .Values.models.trust -}}
{{- if and (eq .Values.models.source "claim") $trust.key }}yes{{ end -}}
{{- end }}

{{/* Environment variables of the containers that manage models. */}}
{{- define "glaim-stream.models.env" -}}
- {name: HOME, value: /tmp}
{{ include "glaim-stream.models.trust" . }}
{{- $values := .root.Values }}
{{- range $variable, $key := $values.models.objectStore.secretKeys }}
{{- with $values.models.objectStore.existingSecret }}
- name: {{ $variable }}
  valueFrom:
    secretKeyRef: {name: {{ . | quote }}, key: {{ $key | quote }}}
{{- end }}
{{- end }}
{{- with $values.models.objectStore.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
