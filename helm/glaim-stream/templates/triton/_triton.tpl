{{/* Arguments of tritonserver. */}}
{{- define "glaim-stream.triton.args" -}}
- --model-repository={{ include "glaim-stream.models.path" (dict "root" . "component" "triton") }}
{{- if eq .Values.triton.device "cpu" }}
# configs/cpu.pbtxt of each model in place of its config.pbtxt.
- --model-config-name=cpu
{{- end }}
{{- if eq .Values.models.source "claim" }}
# New versions are taken up as they come; a bad one is its model's trouble and no reason to end the server.
- --model-control-mode=poll
- --repository-poll-secs={{ .Values.triton.pollSeconds | int64 }}
{{- else }}
- --model-control-mode=none
{{- end }}
# The configurations are complete.
- --disable-auto-complete-config
# One model that does not load must not make the others look unready, nor end the server.
- --strict-readiness=false
- --exit-on-error=false
# HTTP is the probes' alone, who ask from inside the pod.
- --http-address=127.0.0.1
- --http-port=8000
- --grpc-port=8001
- --metrics-port=8002
# To load a model is to run code, so over gRPC what could do it, or write files, wants a word that no caller knows.
- --grpc-restricted-protocol=model-repository,shared-memory,trace,logging:glaim-admin=$(POD_UID)
# Connections are renewed, so that workers look up the Tritons' names again and find those that have come since.
- --grpc-max-connection-age=60000
- --grpc-max-connection-age-grace={{ mul 1000 (ceil .Values.triton.client.deadlineSeconds | int64) }}
# The pod's time less 5 s of preStop and 5 s to end.
- --exit-timeout-secs={{ sub (int64 .Values.triton.terminationGracePeriodSeconds) 10 }}
{{- with .Values.triton.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Resources: the values', and with device gpu the GPU. Extended resources must be requested and limited alike. */}}
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
