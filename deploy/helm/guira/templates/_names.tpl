{{- /*
Names and labels. A release has parts: the caches, and what is switched on beside them. What is included here and in _pods.tpl takes a dict:
  root     what a template calls $
  part     cache, gutter, router, invalidator or checker
  values   of that part; those of the caches stand at the top of values.yaml
*/ -}}

{{- /* The name of all that belongs to a part: that of the release for the caches. */ -}}
{{- define "guira.name" -}}
{{- $suffix := eq .part "cache" | ternary "" (printf "-%s" .part) -}}
{{ .root.Release.Name | trunc (int (sub 52 (len $suffix))) | trimSuffix "-" }}{{ $suffix }}
{{- end -}}

{{- define "guira.selector" -}}
app.kubernetes.io/name: guira
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "guira.labels" -}}
{{ include "guira.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- define "guira.metadata" -}}
name: {{ include "guira.name" . }}
labels:
  {{- include "guira.labels" . | nindent 2 }}
{{- end -}}

{{- /* The name of a Service in DNS, whatever namespace asks: of a dict of root, and the name. */ -}}
{{- define "guira.host" -}}
{{ .name }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end -}}

{{- /* Whether the admin listener of a part speaks TLS, which only caches can: empty if not. */ -}}
{{- define "guira.metricsTls" -}}
{{- if and (has .part (list "cache" "gutter")) .root.Values.tls.secretName .root.Values.metrics.tls }}yes{{ end -}}
{{- end -}}

{{- /* A Service without an address of its own, for its pods: `ready` says whose names are there, all pods or those that are ready. */ -}}
{{- define "guira.headless" -}}
{{- $metrics := .root.Values.metrics -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name | default (include "guira.name" .) }}
  labels:
    {{- include "guira.labels" . | nindent 4 }}
spec:
  clusterIP: None
  {{- if eq .ready "all" }}
  # All pods that are there, ready or not: whoever spreads keys over them moves none because one is slow for a moment.
  publishNotReadyAddresses: true
  {{- end }}
  selector:
    {{- include "guira.selector" . | nindent 4 }}
  {{- if or .ports $metrics.enabled }}
  ports:
    {{- range $name, $port := .ports }}
    - name: {{ $name }}
      port: {{ $port }}
      targetPort: {{ $name }}
    {{- end }}
    {{- if $metrics.enabled }}
    - name: metrics
      port: {{ $metrics.port }}
      targetPort: metrics
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "guira.budget" -}}
{{- if .values.podDisruptionBudget.enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "guira.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "guira.selector" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "guira.monitor" -}}
{{- $metrics := .root.Values.metrics -}}
{{- if $metrics.serviceMonitor.enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "guira.metadata" . | nindent 2 }}
    {{- with $metrics.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "guira.selector" . | nindent 6 }}
  endpoints:
    - port: metrics
      path: /metrics
      interval: {{ $metrics.serviceMonitor.interval }}
      {{- if include "guira.metricsTls" . }}
      scheme: https
      {{- with $metrics.serviceMonitor.tlsConfig }}
      tlsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      {{- if $metrics.token.secretName }}
      authorization:
        credentials:
          name: {{ $metrics.token.secretName | quote }}
          key: {{ $metrics.token.key }}
      {{- end }}
{{- end -}}
{{- end -}}
