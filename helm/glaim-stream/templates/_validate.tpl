{{/*
What a schema cannot say: values that are missing, or contradict each other. Every problem is a line of its own, and all
of them are told at once. A component adds its own by a define "glaim-stream.validate.<name>" in the list below, which
writes a sentence a line and nothing else.
*/}}
{{- define "glaim-stream.validate" -}}
{{- $problems := list -}}
{{- range list "kafka" "catalogue" "models" "triton" "worker" "autoscaling" "monitoring" "training" -}}
{{- range splitList "\n" (include (printf "glaim-stream.validate.%s" .) $) -}}
{{- with trim . }}{{ $problems = append $problems (printf "- %s" .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n%s" (join "\n" $problems)) -}}
{{- end -}}
{{- end }}

{{- define "glaim-stream.validate.kafka" -}}
{{- with .Values.kafka }}
{{- if not .bootstrapServers }}
kafka.bootstrapServers is required: host:port of one or more brokers, comma separated.
{{- else }}
{{- range splitList "," .bootstrapServers }}
{{- if not (regexMatch "^[^\\s/]+:[0-9]+$" (trim .)) }}
kafka.bootstrapServers must be host:port, comma separated, found {{ . | quote }}.
{{- end }}
{{- end }}
{{- end }}
{{- if and .sasl.enabled (not .sasl.existingSecret) }}
kafka.sasl.existingSecret is required while kafka.sasl.enabled is true: the name of a Secret with user name and password.
{{- end }}
{{- if and .sasl.existingSecret (not .sasl.enabled) }}
kafka.sasl.existingSecret is set but kafka.sasl.enabled is false: enable it, or leave the Secret out.
{{- end }}
{{- if and .tls.existingSecret (not .tls.enabled) }}
kafka.tls.existingSecret is set but kafka.tls.enabled is false: enable it, or leave the Secret out.
{{- end }}
{{- if and .tls.clientCertificate.existingSecret (not .tls.enabled) }}
kafka.tls.clientCertificate.existingSecret is set but kafka.tls.enabled is false: enable it, or leave the Secret out.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.catalogue" -}}
{{- with .Values.catalogue }}
{{- if and .inline .existingConfigMap }}
Either catalogue.inline or catalogue.existingConfigMap can be given, but not both.
{{- end }}
{{- if and .inline (not (.inline | fromYaml).models) }}
catalogue.inline must be the text of a groups.yaml, found no models in it.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.models" -}}
{{- $worker := .Values.worker }}
{{- $catalogue := .Values.catalogue }}
{{- $triton := .Values.triton }}
{{- with .Values.models }}
{{- if and .contracts (ne .source "inline") }}
models.contracts are given but models.source is {{ .source }}: set it to inline, or leave them out.
{{- end }}
{{- if and .existingClaim (ne .source "claim") }}
models.existingClaim is given but models.source is {{ .source }}: set it to claim, or leave it out.
{{- end }}
{{- if contains ".." .subPath }}
models.subPath must be a folder of the volume, found {{ .subPath | quote }}.
{{- end }}
{{- if and .objectStore.uri (ne .source "objectStore") }}
models.objectStore.uri is given but models.source is {{ .source }}: set it to objectStore, or leave it out.
{{- end }}
{{- if eq .source "objectStore" }}
{{- if not .objectStore.uri }}
models.objectStore.uri is required while models.source is objectStore: a folder in a bucket, such as s3://bucket/models.
{{- else if not (regexMatch "^(s3|gs|gcs|abfs|abfss)://[^/?]+/[^?]+" .objectStore.uri) }}
models.objectStore.uri must be a folder in a bucket of s3, gs or abfss, such as s3://bucket/models, found {{ .objectStore.uri | quote }}.
{{- end }}
{{- end }}
{{- if eq .source "inline" }}
{{- if $triton.enabled }}
models.source inline brings contracts and no weights, so triton.enabled must be false: name a Triton outside by triton.address.
{{- end }}
{{- if or (eq $worker.imputer "local") $worker.fallbackLocal }}
models.source inline brings no weights, which worker.imputer local and worker.fallbackLocal read: take another source.
{{- end }}
{{- if not .contracts }}
models.contracts are required while models.source is inline: --set-file models.contracts.NAME=contract.json.
{{- else }}
{{- $contracts := .contracts }}
{{- range ($catalogue.inline | fromYaml).models }}
{{- if not (hasKey $contracts .name) }}
The catalogue names model {{ .name | quote }}, of which models.contracts holds no contract.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $text := .contracts }}
{{- if hasKey ($text | fromJson) "Error" }}
models.contracts.{{ $name }} must be the text of a contract.json, found no JSON object.
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.triton" -}}
{{- $imputer := .Values.worker.imputer }}
{{- /* What the chart sets, and what the image's entry does: deploy/images/triton/serve. */}}
{{- $set := list "--model-repository" "--strict-readiness" "--exit-on-error" "--disable-auto-complete-config" "--http-restricted-api" "--grpc-restricted-protocol" "--model-control-mode" "--model-config-name" }}
{{- range regexFindAll "(?m)^- --[a-z-]+" (include "glaim-stream.triton.args" .) -1 }}
{{- $set = append $set (trimPrefix "- " .) }}
{{- end }}
{{- range .Values.triton.extraArgs }}
{{- if has (splitList "=" . | first) $set }}
triton.extraArgs sets {{ splitList "=" . | first }}, which the chart sets already: use its value instead, or leave it as it is.
{{- end }}
{{- end }}
{{- range .Values.triton.extraEnv }}
{{- if has .name (list "GLAIM_MODEL_REPOSITORY" "HOME" "OMP_NUM_THREADS") }}
triton.extraEnv sets {{ .name }}, which the chart sets already: use its value instead.
{{- end }}
{{- end }}
{{- with .Values.triton }}
{{- if .enabled }}
{{- if .address }}
triton.address names a Triton outside, but triton.enabled is true: set it to false, or leave the address out.
{{- end }}
{{- if and (eq (toString .strategy.maxSurge) "0") (eq (toString .strategy.maxUnavailable) "0") }}
triton.strategy.maxSurge and triton.strategy.maxUnavailable are both 0: no pod could ever be replaced.
{{- end }}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) }}
triton.serviceAccount.name is required while triton.serviceAccount.create is false.
{{- end }}
{{- if lt (int64 .terminationGracePeriodSeconds) 15 }}
triton.terminationGracePeriodSeconds must be 15 at least: 5 s of waiting, 5 s to end, and the rest for calls in flight.
{{- end }}
{{- else if eq $imputer "triton" }}
{{- if not .address }}
triton.address is required while triton.enabled is false and worker.imputer is triton: host:port of Triton's gRPC endpoint.
{{- else if not (regexMatch "^[^\\s/]+:[0-9]+$" .address) }}
triton.address must be host:port, found {{ .address | quote }}.
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.worker" -}}
{{- if and .Values.triton.enabled (ne .Values.worker.imputer "triton") }}
worker.imputer is {{ .Values.worker.imputer }}, so nobody would ask the Triton that triton.enabled runs: set triton.enabled to false.
{{- end }}
{{- if and (or (eq .Values.worker.imputer "local") .Values.worker.fallbackLocal) (eq .Values.worker.image.repository "glaim-stream/worker") }}
worker.imputer local and worker.fallbackLocal run the model in the worker, whose own image has neither torch nor weights: set worker.image.repository to glaim-stream/training, which has both.
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
serviceAccount.name is required while serviceAccount.create is false.
{{- end }}
{{- if and (eq .Values.autoscaling.kind "none") (gt (int64 .Values.worker.replicas) (int64 .Values.kafka.partitions)) }}
worker.replicas is {{ int64 .Values.worker.replicas }} but kafka.partitions is {{ int64 .Values.kafka.partitions }}: workers beyond the partitions stand idle. Set kafka.partitions to the number that the input topic has.
{{- end }}
{{- $set := list }}
{{- range (include "glaim-stream.worker.env" . | fromYamlArray) }}{{ $set = append $set .name }}{{ end }}
{{- range .Values.worker.extraEnv }}
{{- if has .name $set }}
worker.extraEnv sets {{ .name }}, which the chart sets already: use its value instead.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.autoscaling" -}}
{{- $partitions := int64 .Values.kafka.partitions }}
{{- with .Values.autoscaling }}
{{- if ne .kind "none" }}
{{- if gt (int64 .maxReplicas) $partitions }}
autoscaling.maxReplicas is {{ int64 .maxReplicas }} but kafka.partitions is {{ $partitions }}: workers beyond the partitions stand idle. 0 means as many as there are partitions.
{{- end }}
{{- if gt (int64 .minReplicas) (int64 (include "glaim-stream.autoscaling.max" $)) }}
autoscaling.minReplicas is {{ int64 .minReplicas }}, more than the {{ include "glaim-stream.autoscaling.max" $ }} of autoscaling.maxReplicas or kafka.partitions.
{{- end }}
{{- end }}
{{- if and (eq .kind "keda") (not ($.Capabilities.APIVersions.Has "keda.sh/v1alpha1")) }}
autoscaling.kind is keda, but this cluster does not serve keda.sh/v1alpha1: install KEDA first, or take hpa or none (helm template is told of it by --api-versions keda.sh/v1alpha1).
{{- end }}
{{- if and (eq .kind "hpa") (not (get ($.Values.worker.resources.requests | default dict) "cpu")) }}
autoscaling.kind hpa measures the CPU against worker.resources.requests.cpu, which is not given.
{{- end }}
{{- end }}
{{- end }}
