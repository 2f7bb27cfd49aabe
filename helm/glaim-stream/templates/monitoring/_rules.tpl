{{/*
Values of the rules: what replaces the numbers and ranges in the lines of files/rules.yaml that end in the
comment with their name. Ranges and silences grow with the step, so that hourly readings are not silence.
*/}}

{{/* The largest step of the catalogue in seconds. Takes $. */}}
{{- define "glaim-stream.rules.step" -}}
{{- $step := int64 .Values.monitoring.stepSeconds -}}
{{- if not $step -}}
{{- range ((.Values.catalogue.inline | fromYaml).models) }}{{ $step = max $step (ceil .step_s | int64) }}{{ end -}}
{{- end -}}
{{ default 60 $step }}
{{- end }}

{{/* A range: a number of steps, at least so many seconds. */}}
{{- define "glaim-stream.rules.range" -}}
{{- $seconds := max .least (mul .steps .step) -}}
{{- $unit := "s" -}}
{{- range $each := list (list 86400 "d") (list 3600 "h") (list 60 "m") -}}
{{- if and (eq $unit "s") (eq (mod $seconds (index $each 0)) 0) -}}
{{- $seconds = div $seconds (index $each 0) }}{{ $unit = index $each 1 -}}
{{- end -}}
{{- end -}}
{{ $seconds }}{{ $unit }}
{{- end }}

{{/* JSON: name to text. Takes $. */}}
{{- define "glaim-stream.rules.values" -}}
{{- $step := include "glaim-stream.rules.step" . | int64 -}}
{{- $values := dict -}}
{{- range $name, $limit := .Values.monitoring.thresholds -}}
{{- $_ := set $values $name (toString $limit) -}}
{{- end -}}
{{- $limits := .Values.monitoring.thresholds -}}
{{- if not $limits.lagSeconds }}{{ $_ := set $values "lagSeconds" (max 60 $step | toString) }}{{ end -}}
{{- if not $limits.silenceSeconds }}{{ $_ := set $values "silenceSeconds" (max 900 (mul 3 $step) | toString) }}{{ end -}}
{{- if not $limits.deadLetterShare -}}
{{- $share := minf 0.99 .Values.worker.deadLetterShare -}}
{{- $_ := set $values "deadLetterShare" (round (divf $share (subf 1 $share)) 4 | toString) -}}
{{- end -}}
{{- with .Values.monitoring.objectives -}}
{{- $_ := set $values "minimumEvents" (.minimumEvents | int64 | toString) -}}
{{- range $name := list "timeliness" "completeness" "availability" "modelShare" -}}
{{- $_ := set $values (printf "%sBudget" $name) (subf 1 (index $.Values.monitoring.objectives $name) | toString) -}}
{{- end -}}
{{- end -}}
{{- range $name, $range := dict "fastShort" (list 300 2) "fastLong" (list 3600 3) "slowShort" (list 1800 3) "slowLong" (list 21600 6) "ticketShort" (list 21600 6) "ticketLong" (list 259200 12) "readingsRange" (list 600 2) -}}
{{- $_ := set $values $name (include "glaim-stream.rules.range" (dict "least" (index $range 0) "steps" (index $range 1) "step" $step)) -}}
{{- end -}}
{{ $values | toJson }}
{{- end }}

{{/* The groups of files/rules.yaml with the values of the release. Takes $. */}}
{{- define "glaim-stream.rules.groups" -}}
{{- $text := .Files.Get "files/rules.yaml" -}}
{{- range $name, $value := include "glaim-stream.rules.values" . | fromJson -}}
{{- if regexMatch "^[0-9]+[smhd]$" $value -}}
{{- $text = regexReplaceAll (printf `\[[0-9]+[a-z]+([^\n]*# %s\b)` $name) $text (printf "[%s${1}" $value) -}}
{{- else -}}
{{- $text = regexReplaceAll (printf `(?m)[0-9.]+( # %s)$` $name) $text (printf "%s${1}" $value) -}}
{{- end -}}
{{- end -}}
{{- with keys .Values.monitoring.rules.clusterLabels | sortAlpha -}}
{{- $text = $text | replace "(namespace" (printf "(%s, namespace" (join ", " .)) -}}
{{- end -}}
{{- with .Values.monitoring.runbookUrl }}{{ $text = $text | replace "docs/runbook.md" . }}{{ end -}}
{{- $groups := list -}}
{{- range $group := (fromYaml $text).groups -}}
{{- $rules := list -}}
{{- range $rule := $group.rules -}}
{{- $change := dict -}}
{{- with $rule.alert }}{{ $change = index $.Values.monitoring.rules.alerts . | default dict }}{{ end -}}
{{- if ne (toString $change.enabled) "false" -}}
{{- if $rule.alert -}}
{{- $_ := set $rule "labels" (merge (dict "severity" (default $rule.labels.severity $change.severity)) ($change.labels | default dict) $.Values.monitoring.rules.alertLabels $rule.labels) -}}
{{- with $change.for }}{{ $_ := set $rule "for" . }}{{ end -}}
{{- end -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- with $rules }}{{ $groups = append $groups (dict "name" $group.name "rules" .) }}{{ end -}}
{{- end -}}
{{ dict "groups" $groups | toYaml }}
{{- end }}

{{/* The rule that declares how many workers and Tritons the release should have. Takes $. */}}
{{- define "glaim-stream.rules.declaration" -}}
{{- $labels := merge (dict "namespace" .Release.Namespace "release" .Release.Name) .Values.monitoring.rules.clusterLabels -}}
{{- $workers := .Values.worker.replicas -}}
{{- if ne .Values.autoscaling.kind "none" }}{{ $workers = .Values.autoscaling.minReplicas }}{{ end -}}
groups:
  # The name distinguishes the groups of releases.
  - name: glaim-stream.declared.{{ .Release.Namespace }}.{{ .Release.Name }}
    rules:
      - record: glaim:release:workers_wanted
        expr: vector({{ $workers | int64 }})
        labels: {{- merge (dict "statefulset" (include "glaim-stream.name" (dict "root" . "component" "worker"))) $labels | toYaml | nindent 10 }}
      {{- if .Values.triton.enabled }}
      - record: glaim:release:tritons_wanted
        expr: vector({{ include "glaim-stream.triton.least" . }})
        labels: {{- merge (dict "deployment" (include "glaim-stream.name" (dict "root" . "component" "triton"))) $labels | toYaml | nindent 10 }}
      {{- end }}
{{- end }}
