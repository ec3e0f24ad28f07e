{{- /* The default configuration: the caches from the SRV record of their Service, and the gutter for failed caches. */ -}}
{{- define "guira.router.config" -}}
{{- $pools := dict "caches" (include "guira.router.pool" (dict "root" .root "part" "cache") | fromJson) -}}
{{- $route := "PoolRoute|caches" -}}
{{- if .root.Values.gutter.enabled -}}
{{- $_ := set $pools "gutter" (include "guira.router.pool" (dict "root" .root "part" "gutter") | fromJson) -}}
{{- $route = dict "type" "FailoverWithExptimeRoute" "normal" "PoolRoute|caches" "failover" (list "PoolRoute|gutter") -}}
{{- end -}}
{{ dict "pools" $pools "route" $route | toPrettyJson }}
{{- end -}}

{{- define "guira.router.pool" -}}
{{- $host := include "guira.host" (dict "root" .root "name" (include "guira.name" .)) -}}
{{- $pool := dict "servers" (printf "srv:_memcached._tcp.%s" $host) -}}
{{- if .root.Values.tls.secretName }}{{ $_ := set $pool "security_mech" "ssl" }}{{ end -}}
{{ toJson $pool }}
{{- end -}}

{{- /* The name of the headless Service of the routers. */ -}}
{{- define "guira.router.pods" -}}
{{ include "guira.name" . }}-pods
{{- end -}}

{{- define "guira.router.args" -}}
{{- $router := .values -}}
{{- $upstream := $router.upstream -}}
{{- $port := int $router.service.port -}}
{{- $kind := empty $router.tls.secretName | ternary "" ($router.tls.clientCertificates | ternary "mtls:" "btls:") -}}
{{- $args := list "router" "--config=file:/etc/guira/router/router.json"
  (printf "--listen=%s0.0.0.0:%d" $kind $port)
  (printf "--num-proxies=%d" (int $router.workers))
  "--async-dir=/var/spool/guira" "--use-asynclog-version2" "--config-dump-root=/var/spool/guira/configuration" -}}
{{- if $router.tls.secretName -}}
{{- $args = concat $args (list "--server-pem-cert-path=/etc/guira/clients/tls.crt" "--server-pem-key-path=/etc/guira/clients/tls.key") -}}
{{- if $router.tls.clientCertificates }}{{ $args = append $args "--server-pem-ca-path=/etc/guira/clients/ca.crt" }}{{ end -}}
{{- else -}}
{{- $pods := include "guira.host" (dict "root" .root "name" (include "guira.router.pods" .)) -}}
{{- $args = append $args (printf "--cluster-nodes=%s:%d" $pods $port) -}}
{{- end -}}
{{- if .root.Values.tls.secretName -}}
{{- if $upstream.verify -}}
{{- $args = concat $args (list "--ssl-verify-peers" "--pem-ca-path=/etc/guira/caches/ca.crt" "--ssl-service-identity-authorization-enforce") -}}
{{- with $upstream.serverName }}{{ $args = append $args (printf "--ssl-service-identity=%s" .) }}{{ end -}}
{{- end -}}
{{- if .root.Values.tls.clientCertificates -}}
{{- $args = concat $args (list "--pem-cert-path=/etc/guira/caches/tls.crt" "--pem-key-path=/etc/guira/caches/tls.key") -}}
{{- end -}}
{{- end -}}
{{- if .root.Values.metrics.enabled -}}
{{- $args = append $args (printf "--admin=0.0.0.0:%d" (int .root.Values.metrics.port)) -}}
{{- $args = concat $args (include "guira.token" . | fromJsonArray) -}}
{{- end -}}
{{ toJson $args }}
{{- end -}}

{{- /* The Secrets of the routers: the certificate for clients, and the certificates for TLS to the caches. */ -}}
{{- define "guira.router.secrets" -}}
{{- $secrets := dict -}}
{{- with .values.tls.secretName }}{{ $_ := set $secrets "clients" . }}{{ end -}}
{{- if and .root.Values.tls.secretName (or .values.upstream.verify .root.Values.tls.clientCertificates) -}}
{{- $_ := set $secrets "caches" (.values.upstream.secretName | default .root.Values.tls.secretName) -}}
{{- end -}}
{{ toJson $secrets }}
{{- end -}}
