{{- /*
Names and labels. A release has parts: the caches, and the optional ones. The templates here and in _pods.tpl take a dict:
  root     the root context ($)
  part     cache, gutter, router, invalidator or checker
  values   the values of the part; those of the caches are at the top level of values.yaml
*/ -}}

{{- /* The name of a part's objects: the release's name, with a suffix for all parts but the caches. */ -}}
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

{{- /* The full DNS name of a Service, from a dict with root and name. */ -}}
{{- define "guira.host" -}}
{{ .name }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end -}}

{{- /* Not empty if the admin listener of a part uses TLS, which only caches and the gutter can. */ -}}
{{- define "guira.metricsTls" -}}
{{- if and (has .part (list "cache" "gutter")) .root.Values.tls.secretName .root.Values.metrics.tls }}yes{{ end -}}
{{- end -}}

{{- /* A headless Service. `names` says which pods have names: "all" pods, or the "ready" ones. */ -}}
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
  {{- if eq .names "all" }}
  # Pods that are not ready have names too: otherwise keys would move to other caches whenever one is slow for a moment.
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
