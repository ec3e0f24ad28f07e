package main

import (
	"fmt"
	"slices"
	"strings"
)

type values = map[string]any

// What is rendered, and what must come of it.
type example struct {
	name    string
	values  values
	version version
	// How many documents there are, and what the command line of each StatefulSet has.
	count     int
	arguments map[string][]string
	// What the configuration of the routers has, or the binary says of a get by it.
	configuration []string
}

var placed = values{
	"podAnnotations":    values{"a": "b"},
	"podLabels":         values{"c": "d"},
	"priorityClassName": "high",
	"nodeSelector":      values{"e": "f"},
	"tolerations":       []any{values{"key": "k", "operator": "Exists"}},
	"affinity":          values{"nodeAffinity": values{}},
	"topologySpreadConstraints": []any{values{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
		"labelSelector": values{"matchLabels": values{"app.kubernetes.io/name": "guira"}}}},
}

// with gives values that have those of all.
func with(all ...values) values {
	sum := values{}
	for _, each := range all {
		for name, value := range each {
			sum[name] = value
		}
	}
	return sum
}

var metrics = values{"enabled": true, "port": 9151, "token": values{"secretName": "cache-token", "key": "word"},
	"serviceMonitor": values{"enabled": true, "interval": "15s", "labels": values{"a": "b"}, "tlsConfig": values{"serverName": "cache"}}}

// The caches, with nothing as it is by default.
var caches = with(placed, values{
	"replicas": 3, "memory": 4096, "workers": 4, "cpu": "2500m", "maxConnections": 100,
	"image":            values{"repository": "r/guira", "tag": "t", "pullPolicy": "Always"},
	"imagePullSecrets": []any{values{"name": "secret"}},
	"clusterDomain":    "cluster.test",
	"extraArgs":        []any{"--disable-flush-all", "--policy=klru:samples=8"},
	"service":          values{"port": 11311},
	"tls":              values{"secretName": "cache-tls", "clientCertificates": true},
	"metrics":          metrics,
	"warmRestart":      values{"enabled": true, "storage": values{"size": "5Gi", "className": "fast"}, "stopSeconds": 300},
})

// Whatever can be switched on together.
var everything = with(caches, values{
	"router": with(placed, values{"enabled": true, "replicas": 3, "memory": 256, "workers": 1, "cpu": "2", "service": values{"port": 5000},
		"storage":  values{"size": "1Gi", "className": "fast"},
		"upstream": values{"secretName": "router-tls", "serverName": "cache"},
		"tls":      values{"secretName": "client-tls", "clientCertificates": true}, "drainSeconds": 20, "extraArgs": []any{"-v", "1"}}),
	"gutter":      with(placed, values{"enabled": true, "replicas": 2, "memory": 64, "workers": 2, "cpu": "1", "maxConnections": 50}),
	"invalidator": with(placed, values{"enabled": true, "config": values{"secretName": "of-invalidator", "key": "i.toml"}, "storage": values{"size": "8Gi", "className": "fast"}, "memory": 64, "extraArgs": []any{"-v"}}),
	"checker":     with(placed, values{"enabled": true, "config": values{"secretName": "of-checker", "key": "c.toml"}, "port": 11300, "memory": 64}),
})

var cases = []example{
	{"with the defaults", values{}, newest, 3, map[string][]string{"guira": {"--listen=0.0.0.0:11211"}}, nil},
	{"with everything of the caches", with(caches, values{"users": values{"secretName": "cache-users", "key": "names"}}), newest, 4, map[string][]string{"guira": {
		"--listen=mtls:0.0.0.0:11311", "--admin=btls:0.0.0.0:9151", "--admin-token-file=/etc/guira/admin/word",
		"--tls-cert=/etc/guira/tls/tls.crt", "--tls-key=/etc/guira/tls/tls.key", "--tls-ca=/etc/guira/tls/ca.crt",
		"--auth-file=/etc/guira/users/names", "--region=/var/lib/guira/region"}}, nil},
	{"with items that outlast a container", values{"memory": 512, "warmRestart": values{"enabled": true}}, newest, 3, map[string][]string{
		"guira": {"--region=/var/lib/guira/region", "--memory=512MiB"}}, nil},
	{"with TLS for clients alone", values{
		"memory": 64, "tls": values{"secretName": "cache-tls"},
		"metrics": values{"enabled": true, "tls": false, "serviceMonitor": values{"enabled": true}},
	}, newest, 4, map[string][]string{"guira": {
		"--listen=0.0.0.0:11211", "--admin=notls:0.0.0.0:9150", "--tls-cert=/etc/guira/tls/tls.crt", "--tls-key=/etc/guira/tls/tls.key"}}, nil},
	{"with everything", everything, newest, 20, map[string][]string{
		"guira":        {"--listen=mtls:0.0.0.0:11311", "--memory=4096MiB", "--disable-flush-all"},
		"guira-gutter": {"--listen=mtls:0.0.0.0:11311", "--memory=64MiB", "--tls-ca=/etc/guira/tls/ca.crt", "--admin=btls:0.0.0.0:9151"},
		"guira-router": {"--listen=mtls:0.0.0.0:5000", "--server-pem-cert-path=/etc/guira/clients/tls.crt", "--server-pem-ca-path=/etc/guira/clients/ca.crt",
			"--ssl-verify-peers", "--pem-ca-path=/etc/guira/caches/ca.crt", "--ssl-service-identity-authorization-enforce", "--ssl-service-identity=cache",
			"--pem-cert-path=/etc/guira/caches/tls.crt", "--pem-key-path=/etc/guira/caches/tls.key", "--admin=0.0.0.0:9151"},
		"guira-invalidator": {"--config=/etc/guira/invalidator/i.toml", "-v"},
		"guira-checker":     {"--config=/etc/guira/checker/c.toml"},
	}, []string{"srv:_memcached._tcp.guira.default.svc.cluster.test", "srv:_memcached._tcp.guira-gutter.default.svc.cluster.test", `"security_mech": "ssl"`, "pool caches)", "exptime: at most 60", "pool gutter)", "server-0.guira-gutter.default.svc.cluster.test:11211"}},
	{"with routers alone", values{"router": values{"enabled": true}}, newest, 8, map[string][]string{
		"guira":        {"--listen=0.0.0.0:11211"},
		"guira-router": {"--listen=0.0.0.0:11211", "--cluster-nodes=guira-router-pods.default.svc.cluster.local:11211", "--async-dir=/var/spool/guira"},
	}, []string{"srv:_memcached._tcp.guira.default.svc.cluster.local", "pool caches)"}},
	{"with routers that see whether a certificate is right", values{"tls": values{"secretName": "cache-tls"}, "router": values{"enabled": true}}, newest, 8, map[string][]string{
		"guira-router": {"--ssl-verify-peers", "--pem-ca-path=/etc/guira/caches/ca.crt", "--listen=0.0.0.0:11211"},
	}, []string{`"security_mech": "ssl"`}},
	{"with routers that take any certificate", values{"tls": values{"secretName": "cache-tls"}, "router": values{"enabled": true, "upstream": values{"verify": false}}}, newest, 8,
		map[string][]string{"guira-router": {"--listen=0.0.0.0:11211"}}, []string{`"security_mech": "ssl"`}},
	{"with a gutter and routers in an older cluster", values{"router": values{"enabled": true, "tls": values{"secretName": "client-tls"}}, "gutter": values{"enabled": true}}, older, 11,
		map[string][]string{"guira-router": {"--listen=btls:0.0.0.0:11211"}, "guira-gutter": {"--memory=256MiB"}}, []string{"pool caches)", "pool gutter)"}},
	{"with a configuration of one's own", values{"router": values{"enabled": true, "drainSeconds": 0, "config": "// mine\n{\"route\": \"NullRoute\"}\n"}}, newest, 8,
		map[string][]string{"guira-router": {"--config=file:/etc/guira/router/router.json"}}, []string{"// mine\n", "NullRoute"}},
	{"with an invalidator and a checker", values{
		"invalidator": values{"enabled": true, "config": values{"secretName": "of-invalidator"}}, "checker": values{"enabled": true, "config": values{"secretName": "of-checker"}},
	}, newest, 7, map[string][]string{
		"guira-invalidator": {"--config=/etc/guira/invalidator/invalidator.toml"}, "guira-checker": {"--config=/etc/guira/checker/checker.toml"}}, nil},
}

// Values that must be refused, and a part of the reason that is given.
var refused = []struct {
	values  values
	because string
}{
	{values{"memroy": 64}, "memroy"},
	{values{"memory": "1Gi"}, "memory"},
	{values{"memory": 0}, "memory"},
	{values{"metrics": values{"serviceMonitor": values{"enabled": true}}}, "nothing to scrape"},
	{values{"metrics": values{"token": values{"secretName": "cache-token"}}}, "metrics.token needs metrics.enabled"},
	{values{"tls": values{"clientCertificates": true}}, "tls.clientCertificates needs tls.secretName"},
	{values{"users": values{"secretName": "cache-users", "key": "../etc/passwd"}}, "users.key"},
	{values{"router": values{"enabled": true, "replica": 2}}, "replica"},
	{values{"router": values{"storage": values{"size": "1 GB"}}}, "storage.size"},
	{values{"users": values{"secretName": "cache-users"}, "router": values{"enabled": true}}, "routers do not log in"},
	{values{"warmRestart": values{"storage": values{"size": "1Gi"}}}, "warmRestart.storage needs warmRestart.enabled"},
	{values{"warmRestart": values{"enabled": true, "stopSeconds": 5}}, "stopSeconds"},
	{values{"gutter": values{"enabled": true}}, "gutter.enabled needs router.enabled"},
	{values{"router": values{"enabled": true, "tls": values{"clientCertificates": true}}}, "needs router.tls.secretName"},
	{values{"router": values{"enabled": true, "upstream": values{"secretName": "router-tls"}}}, "caches without TLS"},
	{values{"router": values{"enabled": true, "upstream": values{"verify": false, "serverName": "cache"}}}, "needs router.upstream.verify"},
	{values{"tls": values{"secretName": "cache-tls", "clientCertificates": true}, "router": values{"enabled": true}}, "needs router.upstream.secretName"},
	{values{"invalidator": values{"enabled": true}}, "invalidator.enabled needs invalidator.config.secretName"},
	{values{"checker": values{"enabled": true}}, "checker.enabled needs checker.config.secretName"},
	{values{"invalidator": values{"enabled": true, "config": values{"secretName": "s"}, "storage": values{"size": ""}}}, "without its stored position"},
}

// check looks at what must agree between the documents of a release, and at what this example is about.
func (each example) check(documents []string, program program) error {
	if len(documents) != each.count {
		return fmt.Errorf("%d documents instead of %d:\n%s", len(documents), each.count, strings.Join(documents, "---\n"))
	}
	decoded, err := decode(documents)
	if err != nil {
		return err
	}
	if err := decoded.check(each.version); err != nil {
		return err
	}
	for name, arguments := range each.arguments {
		set, isThere := decoded.sets[name]
		if !isThere {
			return fmt.Errorf("there is no StatefulSet %s", name)
		}
		for _, argument := range arguments {
			if has := set.Spec.Template.Spec.Containers[0].Args; !slices.Contains(has, argument) {
				return fmt.Errorf("%s: %q lacks %s", name, has, argument)
			}
		}
	}
	explained, err := program.check(decoded)
	if err != nil {
		return err
	}
	text := explained
	if configuration := decoded.configurations["guira-router"]; configuration != nil {
		text += "\n" + configuration.Data["router.json"]
	}
	for _, part := range each.configuration {
		if !strings.Contains(text, part) {
			return fmt.Errorf("the configuration of the routers lacks %s:\n%s", part, text)
		}
	}
	return nil
}
