{{- /* The name of everything: that of the release. */ -}}
{{- define "guira.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}

{{- define "guira.selector" -}}
app.kubernetes.io/name: guira
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "guira.labels" -}}
{{ include "guira.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
