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

{{- /* Whether the admin listener speaks TLS: empty if not. */ -}}
{{- define "guira.metricsTls" -}}
{{- if and .Values.tls.secretName .Values.metrics.tls }}yes{{ end -}}
{{- end -}}

{{- /* The Secrets that are mounted, each as a line: folder below /etc/guira, and name. */ -}}
{{- define "guira.secrets" -}}
{{- with .Values.tls.secretName }}
tls: {{ . | quote }}
{{- end }}
{{- with .Values.users.secretName }}
users: {{ . | quote }}
{{- end }}
{{- if .Values.metrics.enabled }}
{{- with .Values.metrics.token.secretName }}
admin: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
