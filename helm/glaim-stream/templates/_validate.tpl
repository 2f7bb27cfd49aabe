{{/* What a schema cannot say: values that are missing, or contradict each other. Each is refused with a sentence. */}}
{{- define "glaim-stream.validate" -}}
{{- include "glaim-stream.validate.kafka" . -}}
{{- include "glaim-stream.validate.catalogue" . -}}
{{- include "glaim-stream.validate.models" . -}}
{{- include "glaim-stream.validate.worker" . -}}
{{- end }}

{{- define "glaim-stream.validate.kafka" -}}
{{- with .Values.kafka -}}
{{- if not .bootstrapServers -}}
{{- fail "kafka.bootstrapServers is required: host:port of one or more brokers, comma separated." -}}
{{- end -}}
{{- range splitList "," .bootstrapServers -}}
{{- if not (regexMatch "^[^\\s/]+:[0-9]+$" (trim .)) -}}
{{- fail (printf "kafka.bootstrapServers must be host:port, comma separated, found %q." .) -}}
{{- end -}}
{{- end -}}
{{- if and .sasl.enabled (not .sasl.existingSecret) -}}
{{- fail "kafka.sasl.existingSecret is required while kafka.sasl.enabled is true: the name of a Secret with user name and password." -}}
{{- end -}}
{{- if and .sasl.existingSecret (not .sasl.enabled) -}}
{{- fail "kafka.sasl.existingSecret is set but kafka.sasl.enabled is false: enable it, or leave the Secret out." -}}
{{- end -}}
{{- if and .tls.existingSecret (not .tls.enabled) -}}
{{- fail "kafka.tls.existingSecret is set but kafka.tls.enabled is false: enable it, or leave the Secret out." -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "glaim-stream.validate.catalogue" -}}
{{- with .Values.catalogue -}}
{{- if and .inline .existingConfigMap -}}
{{- fail "Either catalogue.inline or catalogue.existingConfigMap can be given, but not both." -}}
{{- end -}}
{{- if not (or .inline .existingConfigMap) -}}
{{- fail "A catalogue is required: catalogue.inline (--set-file catalogue.inline=groups.yaml) or catalogue.existingConfigMap." -}}
{{- end -}}
{{- if not (.existingConfigMap | default (.inline | fromYaml).models) -}}
{{- fail "catalogue.inline must be the text of a groups.yaml, found no models in it." -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "glaim-stream.validate.models" -}}
{{- $imputer := .Values.worker.imputer -}}
{{- with .Values.models -}}
{{- if and .contracts .existingClaim -}}
{{- fail "Either models.contracts or models.existingClaim can be given, but not both." -}}
{{- end -}}
{{- if and .subPath (not .existingClaim) -}}
{{- fail "models.subPath is a folder of models.existingClaim, which is not given." -}}
{{- end -}}
{{- if and (eq $imputer "local") (not .existingClaim) -}}
{{- fail "worker.imputer local reads the weights itself: models.existingClaim is required." -}}
{{- end -}}
{{- if and (eq $imputer "triton") (not .existingClaim) -}}
{{- if not .contracts -}}
{{- fail "worker.imputer triton needs the models' contracts: models.contracts (--set-file models.contracts.NAME=contract.json) or models.existingClaim." -}}
{{- end -}}
{{- $contracts := .contracts -}}
{{- range ($.Values.catalogue.inline | fromYaml).models -}}
{{- if not (hasKey $contracts .name) -}}
{{- fail (printf "The catalogue names model %q, of which models.contracts holds no contract." .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $text := .contracts -}}
{{- if hasKey ($text | fromJson) "Error" -}}
{{- fail (printf "models.contracts.%s must be the text of a contract.json, found no JSON object." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "glaim-stream.validate.worker" -}}
{{- if not .Values.worker.image.repository -}}
{{- fail "worker.image.repository is required: no image is published, so name the one that you have built." -}}
{{- end -}}
{{- if eq .Values.worker.imputer "triton" -}}
{{- if not .Values.triton.address -}}
{{- fail "triton.address is required while worker.imputer is triton: host:port of Triton's gRPC endpoint." -}}
{{- end -}}
{{- if not (regexMatch "^[^\\s/]+:[0-9]+$" .Values.triton.address) -}}
{{- fail (printf "triton.address must be host:port, found %q." .Values.triton.address) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is required while serviceAccount.create is false." -}}
{{- end -}}
{{- $set := list -}}
{{- range (include "glaim-stream.worker.env" . | fromYamlArray) }}{{ $set = append $set .name }}{{ end -}}
{{- range .Values.worker.extraEnv -}}
{{- if has .name $set -}}
{{- fail (printf "worker.extraEnv sets %s, which the chart sets already: use its value instead." .name) -}}
{{- end -}}
{{- end -}}
{{- end }}
