{{/*
Checks that the schema cannot express: values that are missing or contradict each other. All problems are reported at
once, one per line. The checks of a component are in a template "glaim-stream.validate.<name>", which writes one
sentence per problem and line, and nothing else; its name must be in the list below.
*/}}
{{- define "glaim-stream.validate" -}}
{{- $problems := list -}}
{{- range list "gone" "images" "availability" "kafka" "metrics" "page" "catalogue" "models" "learning" "triton" "worker" "autoscaling" "monitoring" "training" -}}
{{- range splitList "\n" (include (printf "glaim-stream.validate.%s" .) $) -}}
{{- with trim . }}{{ $problems = append $problems (printf "- %s" .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n%s" (join "\n" $problems)) -}}
{{- end -}}
{{- end }}

{{- /* Values of earlier releases (glaim_stream/core/gone_settings.py), which the schema admits so that this says what they became. */}}
{{- define "glaim-stream.validate.gone" -}}
{{- range $path, $became := .Files.Get "files/gone.yaml" | fromYaml }}
{{- $found := $.Values }}
{{- range splitList "." $path }}
{{- if kindIs "map" $found }}{{ $found = get $found . }}{{ else }}{{ $found = "" }}{{ end -}}
{{- end }}
{{- if not (or (kindIs "invalid" $found) (eq (toString $found) "")) }}
{{ $path }} is gone: {{ $became }}.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.images" -}}
{{- $used := list .Values.worker }}
{{- if .Values.triton.enabled }}{{ $used = append $used .Values.triton }}{{ end }}
{{- if .Values.training.enabled }}{{ $used = append $used .Values.training }}{{ end }}
{{- $public := list }}
{{- range $used }}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" .image.repository) }}{{ $public = append $public .image.repository }}{{ end }}
{{- end }}
{{- if and $public (not .Values.image.registry) }}
image.registry is required: the registry to which the images of deploy/images were pushed, such as registry.example/team. Without it {{ $public | uniq | join ", " }} would come from a public registry, where anybody may publish the name.
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.availability" -}}
{{- if and .Values.podDisruptionBudget.enabled (eq (toString .Values.podDisruptionBudget.maxUnavailable | trimSuffix "%") "0") }}
podDisruptionBudget.maxUnavailable is {{ .Values.podDisruptionBudget.maxUnavailable }}, which blocks the drain of every node: set it to at least 1, or podDisruptionBudget.enabled to false.
{{- end }}
{{- $deadline := .Values.triton.client.deadlineSeconds | float64 }}
{{- if and .Values.triton.enabled (gt (addf $deadline 10) (float64 .Values.triton.terminationGracePeriodSeconds)) }}
triton.client.deadlineSeconds is {{ $deadline }} but triton.terminationGracePeriodSeconds is {{ int64 .Values.triton.terminationGracePeriodSeconds }}, of which 10 s are not for calls: a Triton that ends would cut off calls in flight. Raise the grace period or lower the deadline.
{{- end }}
{{- if and (eq .Values.worker.imputer "triton") (ge $deadline 55.0) }}
triton.client.deadlineSeconds is {{ $deadline }} but a worker ends itself 55 s after SIGTERM, before its last call would have ended. Lower the deadline.
{{- end }}
{{- if lt (int64 .Values.worker.terminationGracePeriodSeconds) 60 }}
worker.terminationGracePeriodSeconds is {{ int64 .Values.worker.terminationGracePeriodSeconds }}: set it to at least 60, because a worker ends itself after 55 s, and says then what is unanswered.
{{- end }}
{{- if lt (int64 .Values.kafka.extra.session_timeout_ms | default 6000) 6000 }}
kafka.extra.session_timeout_ms is {{ int64 .Values.kafka.extra.session_timeout_ms }}, below the least that a broker accepts by default, 6000 (group.min.session.timeout.ms).
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.kafka" -}}
{{- with .Values.kafka }}
{{- if not .bootstrapServers }}
kafka.bootstrapServers is required: host:port of one or more brokers, separated by commas.
{{- else }}
{{- range splitList "," .bootstrapServers }}
{{- if not (regexMatch "^[^\\s/]+:[0-9]+$" (trim .)) }}
kafka.bootstrapServers must be host:port, separated by commas, found {{ . | quote }}.
{{- end }}
{{- end }}
{{- end }}
{{- if and .sasl.enabled (not .sasl.existingSecret) }}
kafka.sasl.existingSecret is required if kafka.sasl.enabled is true: the name of a Secret with the user name and the password, or with the token.
{{- end }}
{{- if and .sasl.existingSecret (not .sasl.enabled) }}
kafka.sasl.existingSecret is set but kafka.sasl.enabled is false: enable it, or remove the Secret.
{{- end }}
{{- if and .tls.existingSecret (not .tls.enabled) }}
kafka.tls.existingSecret is set but kafka.tls.enabled is false: enable it, or remove the Secret.
{{- end }}
{{- if and .tls.clientCertificate.existingSecret (not .tls.enabled) }}
kafka.tls.clientCertificate.existingSecret is set but kafka.tls.enabled is false: enable it, or remove the Secret.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.page" -}}
{{- with .Values.page }}
{{- if and .enabled (not .existingSecret) }}
page.existingSecret is required if page.enabled is true: the name of a Secret with a token of at least 16 characters, for which the page asks.
{{- end }}
{{- if and .existingSecret (not .enabled) }}
page.existingSecret is set but page.enabled is false: enable it, or remove the Secret.
{{- end }}
{{- if eq (int64 .port) (int64 $.Values.metrics.port) }}
page.port and metrics.port are both {{ int64 .port }}: choose another port for one of them.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.catalogue" -}}
{{- with .Values.catalogue }}
{{- if and .inline .existingConfigMap }}
Either catalogue.inline or catalogue.existingConfigMap can be set, but not both.
{{- end }}
{{- if and .inline (not (.inline | fromYaml).models) }}
catalogue.inline must be the content of a groups.yaml, found no models in it.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.models" -}}
{{- $worker := .Values.worker }}
{{- $catalogue := .Values.catalogue }}
{{- $triton := .Values.triton }}
{{- with .Values.models }}
{{- if and .contracts (ne .source "inline") }}
models.contracts is set but models.source is {{ .source }}: set the source to inline, or remove the contracts.
{{- end }}
{{- if and .existingClaim (ne .source "claim") }}
models.existingClaim is set but models.source is {{ .source }}: set the source to claim, or remove the claim.
{{- end }}
{{- if contains ".." .subPath }}
models.subPath must be a folder in the volume, found {{ .subPath | quote }}.
{{- end }}
{{- if and .objectStore.uri (ne .source "objectStore") }}
models.objectStore.uri is set but models.source is {{ .source }}: set the source to objectStore, or remove the URI.
{{- end }}
{{- if eq .source "objectStore" }}
{{- if not .objectStore.uri }}
models.objectStore.uri is required if models.source is objectStore: a folder in a bucket, such as s3://bucket/models.
{{- else if not (regexMatch "^(s3|gs|gcs|abfs|abfss)://[^/?]+/[^?]+" .objectStore.uri) }}
models.objectStore.uri must be a folder in an s3, gs or abfss bucket, such as s3://bucket/models, found {{ .objectStore.uri | quote }}.
{{- end }}
{{- end }}
{{- if eq .source "inline" }}
{{- if $triton.enabled }}
models.source inline provides contracts but no weights, so triton.enabled must be false: set triton.address to a Triton outside the release.
{{- end }}
{{- if eq $worker.imputer "local" }}
models.source inline provides no weights, which worker.imputer local needs: use another source.
{{- end }}
{{- if .trust.key }}
models.source inline provides contracts without manifests, so models.trust cannot demand any: use another source.
{{- end }}
{{- if not .contracts }}
models.contracts is required if models.source is inline: --set-file models.contracts.NAME=contract.json.
{{- else }}
{{- $contracts := .contracts }}
{{- range ($catalogue.inline | fromYaml).models }}
{{- if not (hasKey $contracts .name) }}
The catalogue contains model {{ .name | quote }}, but models.contracts has no contract for it.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $text := .contracts }}
{{- if hasKey ($text | fromJson) "Error" }}
models.contracts.{{ $name }} must be the content of a contract.json, found no JSON object.
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* docs/operations.md, "A stream without a model". The worker's own memory is the default of worker.resources. */}}
{{- define "glaim-stream.validate.learning" -}}
{{- if include "glaim-stream.catalogue.learns" . }}
{{- $who := ternary "worker.learns is true" "A model of catalogue.inline has learn: true" .Values.worker.learns }}
{{- if ne .Values.models.source "claim" }}
{{ $who }} but models.source is {{ .Values.models.source }}: the workers write the closed forms that they learn, and share them, in a volume. Set models.source to claim.
{{- end }}
{{- if not (trimAll "/" .Values.models.subPath) }}
{{ $who }} but models.subPath is empty: forms that are withdrawn are kept beside the repository, so it must be a folder in the volume.
{{- end }}
{{- if .Values.models.trust.key }}
{{ $who }} but models.trust.key is set: a form that is learned has no signature, so no worker would learn or use it. Remove the key, or learn: true.
{{- end }}
{{- $resources := .Values.worker.resources }}
{{- range $kind, $gibibytes := dict "limits" 4 "requests" 3 }}
{{- with get (get $resources $kind | default dict) "memory" }}
{{- if lt (include "glaim-stream.bytes" . | float64) (mulf $gibibytes 1073741824) }}
{{ $who }} but worker.resources.{{ $kind }}.memory is {{ . }}: set it to at least {{ $gibibytes }}Gi, because a learning takes up to 2Gi beside the worker's own {{ sub $gibibytes 2 }}Gi.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Bytes of a quantity of Kubernetes, such as 4Gi, 4096Mi, 5G or 4294967296. */}}
{{- define "glaim-stream.bytes" -}}
{{- $unit := regexFind "(Ki|Mi|Gi|Ti|Pi|Ei|m|k|M|G|T|P|E)$" (toString .) -}}
{{- $power := dict "Ki" 1 "Mi" 2 "Gi" 3 "Ti" 4 "Pi" 5 "Ei" 6 "k" 1 "M" 2 "G" 3 "T" 4 "P" 5 "E" 6 -}}
{{- $bytes := toString . | trimSuffix $unit | float64 -}}
{{- range until (int (get $power $unit | default 0)) }}{{ $bytes = mulf $bytes (ternary 1024 1000 (hasSuffix "i" $unit)) }}{{ end -}}
{{- if eq $unit "m" }}{{ $bytes = divf $bytes 1000 }}{{ end -}}
{{- $bytes -}}
{{- end }}

{{- define "glaim-stream.validate.triton" -}}
{{- $imputer := .Values.worker.imputer }}
{{- with .Values.triton.autoscaling }}
{{- if and $.Values.triton.enabled (eq .kind "keda") }}
{{- if not ($.Capabilities.APIVersions.Has "keda.sh/v1alpha1") }}
triton.autoscaling.kind is keda but this cluster does not serve keda.sh/v1alpha1: install KEDA first, or use none (with helm template, add --api-versions keda.sh/v1alpha1).
{{- end }}
{{- if not .prometheusAddress }}
triton.autoscaling.prometheusAddress is required if triton.autoscaling.kind is keda: the Prometheus that scrapes Triton, such as http://prometheus-operated.monitoring:9090.
{{- end }}
{{- if gt (int64 .minReplicas) (int64 .maxReplicas) }}
triton.autoscaling.minReplicas is {{ int64 .minReplicas }}, but triton.autoscaling.maxReplicas is {{ int64 .maxReplicas }}.
{{- end }}
{{- end }}
{{- end }}
{{- /* Arguments that the chart sets, and those that the entrypoint of the image sets (deploy/images/triton/serve). */}}
{{- $set := list "--model-repository" "--strict-readiness" "--exit-on-error" "--disable-auto-complete-config" "--http-restricted-api" "--grpc-restricted-protocol" "--model-control-mode" "--model-config-name" }}
{{- range regexFindAll "(?m)^- --[a-z-]+" (include "glaim-stream.triton.args" .) -1 }}
{{- $set = append $set (trimPrefix "- " .) }}
{{- end }}
{{- range .Values.triton.extraArgs }}
{{- if has (splitList "=" . | first) $set }}
triton.extraArgs sets {{ splitList "=" . | first }}, which the chart or the image already sets: use the value of the chart for it, if there is one.
{{- end }}
{{- end }}
{{- range .Values.triton.extraEnv }}
{{- if has .name (list "GLAIM_MODEL_REPOSITORY" "HOME" "OMP_NUM_THREADS") }}
triton.extraEnv sets {{ .name }}, which the chart already sets: use the value of the chart instead.
{{- end }}
{{- end }}
{{- with .Values.triton }}
{{- with .client }}
{{- if and .fixedBatch (not (has (int64 .batch) (list 1 2 4 8 16 32 64 128 256 512 1024 2048 4096))) }}
triton.client.fixedBatch is true but triton.client.batch is {{ int64 .batch }}: set it to a power of two.
{{- end }}
{{- if and (or .tls.existingSecret .tls.clientCertificate.existingSecret .token.existingSecret) (not .tls.enabled) }}
triton.client.tls.existingSecret, triton.client.tls.clientCertificate.existingSecret or triton.client.token.existingSecret is set but triton.client.tls.enabled is false: enable it, or remove the Secret.
{{- end }}
{{- end }}
{{- if and .tls.enabled (not .tls.existingSecret) }}
triton.tls.existingSecret is required if triton.tls.enabled is true: the name of a Secret with a certificate and its key.
{{- end }}
{{- if and .tls.existingSecret (not .tls.enabled) }}
triton.tls.existingSecret is set but triton.tls.enabled is false: enable it, or remove the Secret.
{{- end }}
{{- if and .enabled (ne .tls.enabled .client.tls.enabled) }}
triton.tls.enabled is {{ .tls.enabled }} but triton.client.tls.enabled is {{ .client.tls.enabled }}: with triton.enabled, both sides use TLS or neither.
{{- end }}
{{- if .enabled }}
{{- if .address }}
triton.address is set but triton.enabled is true: set triton.enabled to false to use a Triton outside the release, or remove the address.
{{- end }}
{{- if and (eq (toString .strategy.maxSurge) "0") (eq (toString .strategy.maxUnavailable) "0") }}
triton.strategy.maxSurge and triton.strategy.maxUnavailable are both 0: no pod could ever be replaced. Set one of them to at least 1.
{{- end }}
{{- if and (not .serviceAccount.create) (not .serviceAccount.name) }}
triton.serviceAccount.name is required if triton.serviceAccount.create is false.
{{- end }}
{{- if lt (int64 .terminationGracePeriodSeconds) 15 }}
triton.terminationGracePeriodSeconds must be at least 15: 5 s of waiting, 5 s for the exit, and the rest for the calls in flight.
{{- end }}
{{- else if eq $imputer "triton" }}
{{- if not .address }}
triton.address is required if triton.enabled is false and worker.imputer is triton: host:port of Triton's gRPC endpoint.
{{- else if not (regexMatch "^[^\\s/]+:[0-9]+$" .address) }}
triton.address must be host:port, found {{ .address | quote }}.
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.worker" -}}
{{- if and .Values.triton.enabled (ne .Values.worker.imputer "triton") }}
worker.imputer is {{ .Values.worker.imputer }}, so the Triton of this release would not be used: set triton.enabled to false.
{{- end }}
{{- if and (eq .Values.worker.imputer "local") (eq .Values.worker.image.repository "glaim-stream/worker") }}
worker.imputer local runs the model in the worker, but the image glaim-stream/worker contains neither torch nor the weights: set worker.image.repository to glaim-stream/training, which contains both.
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
serviceAccount.name is required if serviceAccount.create is false.
{{- end }}
{{- if and (eq .Values.autoscaling.kind "none") (gt (int64 .Values.worker.replicas) (int64 .Values.kafka.partitions)) }}
worker.replicas is {{ int64 .Values.worker.replicas }} but kafka.partitions is {{ int64 .Values.kafka.partitions }}: workers in excess of the partitions would be idle. Set kafka.partitions to the number of partitions of the input topic, or lower worker.replicas.
{{- end }}
{{- /* The probes follow metrics.tls alone. */}}
{{- $set := list "GLAIM_METRICS_TLS_CERT" "GLAIM_METRICS_TLS_KEY" "GLAIM_METRICS_TLS_CLIENT_CA" }}
{{- range (include "glaim-stream.worker.env" . | fromYamlArray) }}{{ $set = append $set .name }}{{ end }}
{{- range .Values.worker.extraEnv }}
{{- if has .name $set }}
worker.extraEnv sets {{ .name }}, which the chart sets: use the value of the chart instead.
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.validate.autoscaling" -}}
{{- $partitions := int64 .Values.kafka.partitions }}
{{- with .Values.autoscaling }}
{{- if ne .kind "none" }}
{{- if gt (int64 .maxReplicas) $partitions }}
autoscaling.maxReplicas is {{ int64 .maxReplicas }} but kafka.partitions is {{ $partitions }}: workers in excess of the partitions would be idle. 0 means kafka.partitions.
{{- end }}
{{- if gt (int64 .minReplicas) (int64 (include "glaim-stream.autoscaling.max" $)) }}
autoscaling.minReplicas is {{ int64 .minReplicas }}, but autoscaling.maxReplicas or kafka.partitions limits the workers to {{ include "glaim-stream.autoscaling.max" $ }}.
{{- end }}
{{- end }}
{{- if and (eq .kind "keda") (not ($.Capabilities.APIVersions.Has "keda.sh/v1alpha1")) }}
autoscaling.kind is keda but this cluster does not serve keda.sh/v1alpha1: install KEDA first, or use hpa or none (with helm template, add --api-versions keda.sh/v1alpha1).
{{- end }}
{{- if and (eq .kind "keda") $.Values.kafka.sasl.enabled (eq $.Values.kafka.sasl.mechanism "OAUTHBEARER") }}
autoscaling.kind is keda but kafka.sasl.mechanism is OAUTHBEARER: KEDA cannot log in with a token from a Secret. Use hpa or none.
{{- end }}
{{- if and (eq .kind "hpa") (not (get ($.Values.worker.resources.requests | default dict) "cpu")) }}
autoscaling.kind hpa needs worker.resources.requests.cpu, relative to which it measures CPU use, but no request is set.
{{- end }}
{{- end }}
{{- end }}
