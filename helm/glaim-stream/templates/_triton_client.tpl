{{/*
Environment variables, volumes and mounts for the calls to Triton by TLS and with a token. Each template takes $.
*/}}

{{- define "glaim-stream.tritonClient.env" -}}
{{- with .Values.triton.client }}
{{- if .tls.existingSecret }}
- name: GLAIM_TRITON_CA_FILE
  value: /etc/glaim/triton-ca/ca.crt
{{- end }}
{{- if .tls.clientCertificate.existingSecret }}
- name: GLAIM_TRITON_CERT_FILE
  value: /etc/glaim/triton-client/tls.crt
- name: GLAIM_TRITON_KEY_FILE
  value: /etc/glaim/triton-client/tls.key
{{- end }}
{{- if .token.existingSecret }}
- name: GLAIM_TRITON_TOKEN_FILE
  value: /etc/glaim/triton-token/token
- name: GLAIM_TRITON_TOKEN_HEADER
  value: {{ .token.header }}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.tritonClient.volumes" -}}
{{- with .Values.triton.client }}
{{- if .tls.existingSecret }}
- name: triton-ca
  secret:
    secretName: {{ .tls.existingSecret | quote }}
    items:
      - {key: {{ .tls.caKey | quote }}, path: ca.crt}
{{- end }}
{{- with .tls.clientCertificate }}
{{- if .existingSecret }}
- name: triton-client
  secret:
    secretName: {{ .existingSecret | quote }}
    items:
      - {key: {{ .certificateKey | quote }}, path: tls.crt}
      - {key: {{ .privateKeyKey | quote }}, path: tls.key}
{{- end }}
{{- end }}
{{- if .token.existingSecret }}
- name: triton-token
  secret:
    secretName: {{ .token.existingSecret | quote }}
    items:
      - {key: {{ .token.key | quote }}, path: token}
{{- end }}
{{- end }}
{{- end }}

{{- define "glaim-stream.tritonClient.mounts" -}}
{{- with .Values.triton.client }}
{{- if .tls.existingSecret }}
- {name: triton-ca, mountPath: /etc/glaim/triton-ca, readOnly: true}
{{- end }}
{{- if .tls.clientCertificate.existingSecret }}
- {name: triton-client, mountPath: /etc/glaim/triton-client, readOnly: true}
{{- end }}
{{- if .token.existingSecret }}
- {name: triton-token, mountPath: /etc/glaim/triton-token, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
