{{/*
Arguments that the entrypoint of the image (deploy/images/triton/serve) passes to tritonserver. The entrypoint itself
adds those that do not depend on values: strict readiness off, and the admin APIs protected by a secret that is new at
each start.
*/}}
{{- define "glaim-stream.triton.args" -}}
{{- if eq .Values.triton.device "cpu" }}
# Selects configs/cpu.pbtxt of each model instead of its config.pbtxt.
- --model-config-name=cpu
{{- end }}
{{- if include "glaim-stream.models.change" . }}
# Loads new versions without a restart.
- --model-control-mode=poll
- --repository-poll-secs={{ .Values.triton.pollSeconds | int64 }}
{{- else }}
- --model-control-mode=none
{{- end }}
{{- with .Values.triton.tls }}
{{- if .enabled }}
- --grpc-use-ssl=true
- --grpc-use-ssl-mutual={{ .mutual }}
- --grpc-server-cert=/etc/glaim/triton-tls/tls.crt
- --grpc-server-key=/etc/glaim/triton-tls/tls.key
{{- if .mutual }}
- --grpc-root-cert=/etc/glaim/triton-tls/ca.crt
{{- end }}
{{- end }}
{{- end }}
# Only the probes use HTTP, from inside the pod.
- --http-address=127.0.0.1
# By default the metrics endpoint would listen on the HTTP address.
- --metrics-address={{ .Values.metrics.host }}
- --metrics-port=8002
# Closes connections after a minute, so that the workers resolve the name again and find new Tritons. Calls in flight
# are finished first.
- --grpc-max-connection-age=60000
- --grpc-max-connection-age-grace={{ mul 1000 (ceil .Values.triton.client.deadlineSeconds | int64) }}
# The grace period minus 5 s for preStop and 5 s for the exit.
- --exit-timeout-secs={{ sub (int64 .Values.triton.terminationGracePeriodSeconds) 10 }}
{{- end }}

{{/*
A probe. Its timeout is a second shorter than the kubelet's, so that it can report what failed. Takes the values of the
probe as "probe", and more arguments as "more".
*/}}
{{- define "glaim-stream.triton.probe" -}}
{{- $command := concat (list "python3" "/opt/glaim/probe.py" "--timeout" (max 1 (sub (int64 .probe.timeoutSeconds) 1) | toString)) .more -}}
exec:
  command: {{ $command | toJson }}
{{ toYaml .probe }}
{{- end }}

{{/*
Resources. With device gpu, the GPU is added to both requests and limits, which must be equal for extended resources.
*/}}
{{- define "glaim-stream.triton.resources" -}}
{{- $resources := deepCopy .Values.triton.resources -}}
{{- if eq .Values.triton.device "gpu" -}}
{{- range list "requests" "limits" -}}
{{- $gpu := dict $.Values.triton.gpu.resource ($.Values.triton.gpu.count | int64) -}}
{{- $_ := set $resources . (merge $gpu (get $resources . | default dict)) -}}
{{- end -}}
{{- end -}}
{{ toYaml $resources }}
{{- end }}
