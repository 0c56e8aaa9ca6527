{{/* The name of all objects. It is unique in a namespace, so it is also what selects the
     Pods: a label for the release need not be added to what deploy/ selects by. */}}
{{- define "name" -}}
{{- $default := contains "schedule-night" .Release.Name | ternary .Release.Name (printf "%s-schedule-night" .Release.Name) }}
{{- .Values.fullnameOverride | default $default | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "selector" -}}
app.kubernetes.io/name: {{ include "name" . }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The program's arguments. Helm makes every number a float, and would print a large
     one as 1e+06. */}}
{{- define "args" -}}
{{- $args := list }}
{{- with .Values.scope.namespace }}
{{- $args = append $args (printf "--namespace=%s" .) }}
{{- end }}
{{- if ne (include "leaseName" .) "schedule-night" }}
{{- $args = append $args (printf "--leader-elect-resource-name=%s" (include "leaseName" .)) }}
{{- end }}
{{- range $name, $value := omit .Values.flags "leader-elect-resource-name" }}
{{- if kindIs "slice" $value }}
{{- $value = join "," $value }}
{{- else if kindIs "float64" $value }}
{{- $value = ternary (int64 $value) $value (eq (floor $value) $value) }}
{{- end }}
{{- if not (kindIs "invalid" $value) }}
{{- $args = append $args (printf "--%s=%v" $name $value) }}
{{- end }}
{{- end }}
{{- toYaml (concat $args .Values.extraArgs | default list) }}
{{- end }}

{{- define "leaseName" -}}
{{ get .Values.flags "leader-elect-resource-name" | default (include "name" .) }}
{{- end }}

{{- define "leaseNamespace" -}}
{{ get .Values.flags "leader-elect-resource-namespace" | default .Release.Namespace }}
{{- end }}

{{/* The port of --listen-address; empty: there is none. */}}
{{- define "port" -}}
{{- $address := index .Values.flags "listen-address" }}
{{- if kindIs "invalid" $address }}8080{{ else }}{{ regexFind "[0-9]*$" $address }}{{ end }}
{{- end }}

{{/* Of the policy, an object of the cluster: releases of the same name in several
     namespaces each need their own. */}}
{{- define "policyName" -}}
{{ include "name" . }}{{ with .Values.scope.namespace }}-{{ $.Release.Namespace }}{{ end }}-status
{{- end }}
