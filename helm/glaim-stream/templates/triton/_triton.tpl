{{/*
Arguments that the image's own entry (deploy/images/triton/serve) hands on to tritonserver. What does not depend on
values stands there: strict readiness off, the admin APIs closed by a secret of each start.
*/}}
{{- define "glaim-stream.triton.args" -}}
{{- if eq .Values.triton.device "cpu" }}
# configs/cpu.pbtxt of each model in place of its config.pbtxt.
- --model-config-name=cpu
{{- end }}
{{- if include "glaim-stream.models.change" . }}
# New versions are taken up as they come.
- --model-control-mode=poll
- --repository-poll-secs={{ .Values.triton.pollSeconds | int64 }}
{{- else }}
- --model-control-mode=none
{{- end }}
# HTTP is the probes' alone, who ask from inside the pod.
- --http-address=127.0.0.1
# Metrics would else listen where HTTP does.
- --metrics-address={{ .Values.metrics.host }}
- --metrics-port=8002
# Connections are renewed after a minute, so that workers look up the Tritons' names again and find those that have come
# since. Calls in flight are finished first.
- --grpc-max-connection-age=60000
- --grpc-max-connection-age-grace={{ mul 1000 (ceil .Values.triton.client.deadlineSeconds | int64) }}
# The pod's time less 5 s of preStop and 5 s to end.
- --exit-timeout-secs={{ sub (int64 .Values.triton.terminationGracePeriodSeconds) 10 }}
{{- end }}

{{/*
A probe: what it runs and when. It gives up a second before the kubelet would, so that its sentence says what was
missing. Takes the values of the probe.
*/}}
{{- define "glaim-stream.triton.probe" -}}
exec:
  command: [python3, /opt/glaim/probe.py, --timeout, {{ max 1 (sub (int64 .timeoutSeconds) 1) | quote }}]
{{ toYaml . }}
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
