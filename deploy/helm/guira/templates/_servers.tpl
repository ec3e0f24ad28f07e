{{- /* Caches and gutter: servers with the same certificates and users, which have the names of their pods. */ -}}
{{- define "guira.servers" -}}
{{- $all := .root.Values -}}
{{- $secrets := dict -}}
{{- $args := list "serve"
  (printf "--listen=%s0.0.0.0:%d" (ternary "mtls:" "" $all.tls.clientCertificates) (int $all.service.port))
  (printf "--memory=%dMiB" (int .values.memory))
  (printf "--workers=%d" (int .values.workers))
  (printf "--max-connections=%d" (int .values.maxConnections)) -}}
{{- if $all.metrics.enabled -}}
{{- $kind := empty $all.tls.secretName | ternary "" (empty (include "guira.metricsTls" .) | ternary "notls:" "btls:") -}}
{{- $args = append $args (printf "--admin=%s0.0.0.0:%d" $kind (int $all.metrics.port)) -}}
{{- $args = concat $args (include "guira.token" . | fromJsonArray) -}}
{{- end -}}
{{- with $all.tls.secretName -}}
{{- $_ := set $secrets "tls" . -}}
{{- $args = concat $args (list "--tls-cert=/etc/guira/tls/tls.crt" "--tls-key=/etc/guira/tls/tls.key") -}}
{{- if $all.tls.clientCertificates }}{{ $args = append $args "--tls-ca=/etc/guira/tls/ca.crt" }}{{ end -}}
{{- end -}}
{{- with $all.users.secretName -}}
{{- $_ := set $secrets "users" . -}}
{{- $args = append $args (printf "--auth-file=/etc/guira/users/%s" $all.users.key) -}}
{{- end -}}
{{- $kept := dict -}}
{{- $grace := 30 -}}
{{- if and (eq .part "cache") $all.warmRestart.enabled -}}
{{- $grace = int $all.warmRestart.stopSeconds -}}
{{- $args = append $args "--region=/var/lib/guira/region" -}}
{{- $kept = dict "state" "/var/lib/guira" "storage" $all.warmRestart.storage "stateMemory" (int .values.memory) -}}
{{- end -}}
{{- $ready := "" -}}
{{- if not (or $all.tls.secretName $all.users.secretName) }}{{ $ready = printf "127.0.0.1:%d" (int $all.service.port) }}{{ end -}}
{{- $ports := dict "memcached" $all.service.port -}}
{{ include "guira.headless" (merge (dict "ports" $ports "names" "all") .) }}
---
{{- /* There is no preStop hook: no other pod has the keys of a cache that stops, so a delay would not help its clients. The server
gives connections drain-timeout (five seconds), and then keeps its items, if it has a region. */}}
{{ include "guira.statefulset" (merge $kept (dict "replicas" .values.replicas "memory" (add .values.memory 256) "grace" $grace
  "settle" (eq .part "cache" | ternary (int $all.minReadySeconds) 0)
  "args" $args "ports" $ports "secrets" $secrets "port" "memcached" "ready" $ready) .) }}
---
{{ include "guira.budget" . }}
---
{{ include "guira.monitor" . }}
{{- end -}}

{{- /* A list with the option for the token of an admin listener. */ -}}
{{- define "guira.token" -}}
{{- with .root.Values.metrics.token -}}
{{- empty .secretName | ternary list (list (printf "--admin-token-file=/etc/guira/admin/%s" .key)) | toJson -}}
{{- end -}}
{{- end -}}
