{{/*
A test pod. "root" is $; "name" its name; "command" a list; "env", "mounts", "volumes" and "init" are YAML text.
*/}}
{{- define "glaim-stream.test" -}}
{{- $test := dict "root" .root "component" "test" -}}
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "glaim-stream.name" $test }}-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "glaim-stream.labels" $test | nindent 4 }}
  annotations:
    helm.sh/hook: test
    # Successful pods are deleted; failed ones are kept for inspection until the next test.
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    # Prints the log before the pod is deleted, in versions of Helm that support this annotation.
    helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
spec:
  restartPolicy: Never
  activeDeadlineSeconds: {{ .root.Values.tests.timeoutSeconds | int64 }}
  serviceAccountName: {{ include "glaim-stream.serviceAccountName" (dict "root" .root "component" "worker") }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "glaim-stream.pod.security" .root.Values.worker | nindent 4 }}
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
  {{- with .root.Values.worker.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.worker.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
