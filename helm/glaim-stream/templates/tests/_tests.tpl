{{/*
A test pod. "root" is $; "name" its name; "command" a list; "env", "mounts", "volumes" and "init" are YAML text.
*/}}
{{- define "glaim-stream.test" -}}
{{- $test := dict "root" .root "component" "test" -}}
apiVersion: v1
kind: Pod
metadata:
  {{- $annotations := dict "helm.sh/hook" "test" }}
  {{- /* Successful pods are deleted; failed ones are kept for inspection until the next test. */}}
  {{- $_ := set $annotations "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" }}
  {{- /* Prints the log before the pod is deleted, in versions of Helm that support this annotation. */}}
  {{- $_ := set $annotations "helm.sh/hook-output-log-policy" "hook-succeeded,hook-failed" }}
  {{- $name := printf "%s-%s" (include "glaim-stream.name" $test) .name }}
  {{- include "glaim-stream.metadata" (dict "root" .root "component" "test" "name" $name "annotations" $annotations) | nindent 2 }}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: {{ .root.Values.tests.timeoutSeconds | int64 }}
  {{- $pod := dict "root" .root "component" "worker" "values" .root.Values.worker }}
  {{- include "glaim-stream.pod.identity" $pod | nindent 2 }}
  {{- include "glaim-stream.pod.placement" $pod | nindent 2 }}
  {{- with .init }}
  initContainers:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: test
      image: {{ include "glaim-stream.image" (dict "root" .root "image" .root.Values.worker.image) | quote }}
      imagePullPolicy: {{ .root.Values.worker.image.pullPolicy }}
      command: {{- toYaml .command | nindent 8 }}
      {{- with .env }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "glaim-stream.container.security" . | nindent 8 }}
      resources: {{- toYaml .root.Values.tests.resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: {{ .root.Values.worker.tmpSizeLimit | quote }}}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}
