{{- /*
The StatefulSet of a part: beside root, part and values, the dict has
  replicas, memory, grace   memory: the container's limit in MiB; grace: the termination grace period in seconds
  args, ports               arguments and named ports of the container; the port of the admin listener is added
  secrets                   names of Secrets by folder, mounted at /etc/guira/FOLDER; the token of the admin listener is added
and may have
  service                   the name of the governing Service, if it is not that of the part
  config                    the name of a ConfigMap, mounted at /etc/guira/PART
  state                     a writable folder
  storage                   the size and class of its claim, if they are not those of the part's values
  stateMemory               the size of the folder in MiB, if it is in memory without a claim
  drain                     how many seconds a terminating pod keeps serving
  port                      the port for startup and liveness probes
  ready                     the address at which a probe stores a value and reads it, if nothing better says that a pod is ready
  settle                    how many seconds a new pod must be ready before the next one is replaced
*/ -}}
{{- define "guira.statefulset" -}}
{{- $metrics := .root.Values.metrics -}}
{{- $secrets := .secrets -}}
{{- if and $metrics.enabled $metrics.token.secretName -}}
{{- $secrets = merge (dict "admin" $metrics.token.secretName) $secrets -}}
{{- end -}}
{{- $storage := .storage | default .values.storage -}}
{{- $claim := and .state $storage.size -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "guira.metadata" . | nindent 2 }}
spec:
  serviceName: {{ .service | default (include "guira.name" .) }}
  replicas: {{ .replicas }}
  # The pods are independent.
  podManagementPolicy: Parallel
  {{- with .settle }}
  # A rollout empties one cache after the other: each has time to fill.
  minReadySeconds: {{ . }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "guira.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "guira.labels" . | nindent 8 }}
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: {{ .grace }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 11211
        runAsGroup: 11211
        {{- if or $secrets .state }}
        # The process reads the files of Secrets and writes to volumes by this group.
        fsGroup: 11211
        fsGroupChangePolicy: OnRootMismatch
        {{- end }}
        seccompProfile:
          type: RuntimeDefault
      {{- with include "guira.placement" . }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
        - name: guira
          image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            - guira
            {{- range concat .args (.values.extraArgs | default list) }}
            - {{ toYaml . | trim }}
            {{- end }}
          {{- if or .ports $metrics.enabled }}
          ports:
            {{- range $name, $port := .ports }}
            - name: {{ $name }}
              containerPort: {{ $port }}
            {{- end }}
            {{- if $metrics.enabled }}
            - name: metrics
              containerPort: {{ $metrics.port }}
            {{- end }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- if or $secrets .config .state }}
          volumeMounts:
            {{- range $folder, $name := $secrets }}
            - { name: {{ $folder }}, mountPath: /etc/guira/{{ $folder }}, readOnly: true }
            {{- end }}
            {{- if .config }}
            - { name: config, mountPath: /etc/guira/{{ .part }}, readOnly: true }
            {{- end }}
            {{- with .state }}
            - { name: state, mountPath: {{ . }} }
            {{- end }}
          {{- end }}
          resources:
            requests:
              cpu: {{ .values.cpu | quote }}
              memory: {{ .memory }}Mi
            limits:
              memory: {{ .memory }}Mi
          {{- with include "guira.probes" . | trim }}
          {{- . | nindent 10 }}
          {{- end }}
          {{- if and .drain (semverCompare ">=1.30.0-0" .root.Capabilities.KubeVersion.Version) }}
          # The pod keeps serving while Kubernetes removes its address from the Service.
          lifecycle:
            preStop:
              sleep: { seconds: {{ .drain }} }
          {{- end }}
      {{- if or $secrets .config (and .state (not $claim)) }}
      volumes:
        {{- range $folder, $name := $secrets }}
        - name: {{ $folder }}
          secret: { secretName: {{ $name | quote }}, defaultMode: 0440 }
        {{- end }}
        {{- with .config }}
        - name: config
          configMap: { name: {{ . }} }
        {{- end }}
        {{- if and .state (not $claim) }}
        - name: state
          emptyDir: {{ with .stateMemory }}{ medium: Memory, sizeLimit: {{ . }}Mi }{{ else }}{}{{ end }}
        {{- end }}
      {{- end }}
  {{- if $claim }}
  volumeClaimTemplates:
    - metadata:
        name: state
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $storage.className }}
        storageClassName: {{ . | quote }}
        {{- end }}
        resources:
          requests:
            storage: {{ $storage.size | quote }}
  {{- end }}
{{- end -}}

{{- /* Scheduling, and Secrets for the image. A constraint without labelSelector applies to the part's own pods. */ -}}
{{- define "guira.placement" -}}
{{- $spreads := list -}}
{{- range .values.topologySpreadConstraints -}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "guira.selector" $ | fromYaml)) -}}
{{- $spreads = append $spreads (hasKey . "labelSelector" | ternary . (merge $own .)) -}}
{{- end -}}
{{- $all := dict -}}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $all "imagePullSecrets" . }}{{ end -}}
{{- range list "priorityClassName" "nodeSelector" "tolerations" "affinity" -}}
{{- $name := . -}}
{{- with get $.values $name }}{{ $_ := set $all $name . }}{{ end -}}
{{- end -}}
{{- with $spreads }}{{ $_ := set $all "topologySpreadConstraints" . }}{{ end -}}
{{- with $all }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- define "guira.probes" -}}
{{- if .port -}}
startupProbe:
  tcpSocket: { port: {{ .port }} }
  periodSeconds: 1
  failureThreshold: 60
{{- end }}
{{- if or .port .root.Values.metrics.enabled }}
readinessProbe:
  {{- if .root.Values.metrics.enabled }}
  httpGet: { path: /ready, port: metrics{{ if include "guira.metricsTls" . }}, scheme: HTTPS{{ end }} }
  {{- else if .ready }}
  exec: { command: [guira, ready, {{ .ready | quote }}] }
  {{- else }}
  tcpSocket: { port: {{ .port }} }
  {{- end }}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}
{{- if .port }}
# The probe uses the port for clients: a failure of the admin listener alone must not restart the pod.
livenessProbe:
  tcpSocket: { port: {{ .port }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}
{{- end -}}
