// Renders the Helm chart as helm does and decodes what comes out strictly, as the types of Kubernetes: with the defaults, which are
// printed, and with everything switched on. Nothing is asked of a cluster.
//
//	go run . CHART > deploy/kubernetes/guira.yaml
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// The release whose manifest is in the repository.
const release = "guira"

// ServiceMonitor is as much of Prometheus' operator's type as the chart uses.
type ServiceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
			Scheme   string `json:"scheme,omitempty"`
			// As it is given.
			TLSConfig     map[string]any `json:"tlsConfig,omitempty"`
			Authorization *struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization,omitempty"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// Everything switched on, and nothing as it is by default.
var everything = map[string]any{
	"replicas": 3, "memory": 4096, "workers": 4, "cpu": "2500m", "maxConnections": 100,
	"image":            map[string]any{"repository": "r/guira", "tag": "t", "pullPolicy": "Always"},
	"imagePullSecrets": []any{map[string]any{"name": "secret"}},
	"extraArgs":        []any{"--disable-flush-all", "--policy=klru:samples=8"},
	"service":          map[string]any{"port": 11311},
	"tls":              map[string]any{"secretName": "cache-tls", "clientCertificates": true},
	"users":            map[string]any{"secretName": "cache-users", "key": "names"},
	"metrics": map[string]any{"enabled": true, "port": 9151, "token": map[string]any{"secretName": "cache-token", "key": "word"},
		"serviceMonitor": map[string]any{"enabled": true, "interval": "15s", "labels": map[string]any{"a": "b"}, "tlsConfig": map[string]any{"serverName": "cache"}}},
	"podAnnotations":    map[string]any{"a": "b"},
	"podLabels":         map[string]any{"c": "d"},
	"priorityClassName": "high",
	"nodeSelector":      map[string]any{"e": "f"},
	"tolerations":       []any{map[string]any{"key": "k", "operator": "Exists"}},
	"affinity":          map[string]any{"nodeAffinity": map[string]any{}},
	"topologySpreadConstraints": []any{map[string]any{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "guira"}}}},
}

// Values that must be refused.
var refused = []map[string]any{
	{"memroy": 64},
	{"memory": "1Gi"},
	{"memory": 0},
	{"metrics": map[string]any{"serviceMonitor": map[string]any{"enabled": true}}},
	{"metrics": map[string]any{"token": map[string]any{"secretName": "cache-token"}}},
	{"tls": map[string]any{"clientCertificates": true}},
	{"users": map[string]any{"secretName": "cache-users", "key": "../etc/passwd"}},
}

// What is mounted of Secrets where everything is switched on, and where TLS is without the admin listener's.
var (
	ofEverything = []string{
		"--listen=mtls:0.0.0.0:11311", "--admin=btls:0.0.0.0:9151", "--admin-token-file=/etc/guira/admin/word",
		"--tls-cert=/etc/guira/tls/tls.crt", "--tls-key=/etc/guira/tls/tls.key", "--tls-ca=/etc/guira/tls/ca.crt",
		"--auth-file=/etc/guira/users/names",
	}
	half = map[string]any{
		"memory": 64, "tls": map[string]any{"secretName": "cache-tls"},
		"metrics": map[string]any{"enabled": true, "tls": false, "serviceMonitor": map[string]any{"enabled": true}},
	}
	ofHalf = []string{"--listen=0.0.0.0:11211", "--admin=notls:0.0.0.0:9150", "--tls-cert=/etc/guira/tls/tls.crt", "--tls-key=/etc/guira/tls/tls.key"}
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	loaded, err := loader.Load(folder)
	if err != nil {
		return err
	}
	for _, values := range refused {
		if _, err := render(loaded, values); err == nil {
			return fmt.Errorf("%v is not refused", values)
		}
	}
	manifests, err := render(loaded, everything)
	if err != nil {
		return err
	}
	if err := check(manifests, everything, 4, ofEverything); err != nil {
		return fmt.Errorf("with everything: %w", err)
	}
	manifests, err = render(loaded, half)
	if err != nil {
		return err
	}
	if err := check(manifests, half, 4, ofHalf); err != nil {
		return fmt.Errorf("with TLS for clients alone: %w", err)
	}
	manifests, err = render(loaded, map[string]any{})
	if err != nil {
		return err
	}
	if err := check(manifests, loaded.Values, 3, nil); err != nil {
		return fmt.Errorf("with the defaults: %w", err)
	}
	fmt.Println(strings.Join(manifests, "---\n"))
	return nil
}

// render gives the documents of a release, without those that are empty, in the order of their names.
func render(loaded *chart.Chart, values map[string]any) ([]string, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "default", IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, options, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, text := range files {
		if strings.HasSuffix(path.Base(name), ".yaml") && strings.TrimSpace(text) != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var documents []string
	for _, name := range names {
		documents = append(documents, strings.TrimSpace(files[name])+"\n")
	}
	return documents, nil
}

// check decodes the documents and looks at what must agree between them.
func check(documents []string, values map[string]any, count int, arguments []string) error {
	if len(documents) != count {
		return fmt.Errorf("%d documents instead of %d", len(documents), count)
	}
	var set appsv1.StatefulSet
	var service corev1.Service
	var budget policyv1.PodDisruptionBudget
	var monitor ServiceMonitor
	kinds := map[string]any{"StatefulSet": &set, "Service": &service, "PodDisruptionBudget": &budget, "ServiceMonitor": &monitor}
	for _, document := range documents {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			return err
		}
		kind, known := kinds[meta.Kind]
		if !known {
			return fmt.Errorf("there are two of kind %s, or none is expected", meta.Kind)
		}
		delete(kinds, meta.Kind)
		if err := yaml.UnmarshalStrict([]byte(document), kind); err != nil {
			return fmt.Errorf("%s: %w\n%s", meta.Kind, err, document)
		}
	}
	pod := set.Spec.Template
	selected := labels.Set(pod.Labels)
	selectors := map[string]*metav1.LabelSelector{"StatefulSet": set.Spec.Selector, "PodDisruptionBudget": budget.Spec.Selector}
	for owner, selector := range selectors {
		matcher, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return err
		}
		if !matcher.Matches(selected) {
			return fmt.Errorf("the %s does not select its pods", owner)
		}
	}
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(selected) || service.Spec.ClusterIP != "None" || set.Spec.ServiceName != service.Name {
		return errors.New("the service is not the headless one of the pods")
	}
	if count == 4 {
		matcher, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil {
			return err
		}
		port := monitor.Spec.Endpoints[0].Port
		isThere := slices.ContainsFunc(service.Spec.Ports, func(each corev1.ServicePort) bool { return each.Name == port })
		if !matcher.Matches(labels.Set(service.Labels)) || !isThere {
			return errors.New("the monitor does not find the service or its port")
		}
		if err := checkMonitor(monitor, pod.Spec.Containers[0]); err != nil {
			return err
		}
	}
	for _, argument := range arguments {
		if !slices.Contains(pod.Spec.Containers[0].Args, argument) {
			return fmt.Errorf("%v lacks %s", pod.Spec.Containers[0].Args, argument)
		}
	}
	if err := checkSecrets(pod.Spec); err != nil {
		return err
	}
	return checkContainer(pod.Spec, service, values)
}

// checkMonitor compares how figures are asked for with how the container shows them.
func checkMonitor(monitor ServiceMonitor, container corev1.Container) error {
	endpoint := monitor.Spec.Endpoints[0]
	has := func(prefix string) bool {
		return slices.ContainsFunc(container.Args, func(each string) bool { return strings.HasPrefix(each, prefix) })
	}
	if speaksTLS := has("--admin=btls:"); speaksTLS != (endpoint.Scheme == "https") || speaksTLS != (container.ReadinessProbe.HTTPGet.Scheme == corev1.URISchemeHTTPS) {
		return errors.New("the monitor or the probe speaks TLS where the admin listener does not, or the other way round")
	}
	if has("--admin-token-file=") != (endpoint.Authorization != nil) {
		return errors.New("the monitor shows a token that is not asked for, or none that is")
	}
	return nil
}

// checkSecrets looks whether every file that an option names lies in a Secret that is mounted, and every Secret is used.
func checkSecrets(pod corev1.PodSpec) error {
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil || volume.Secret.SecretName == "" || *volume.Secret.DefaultMode != 0o440 {
			return fmt.Errorf("volume %s is no Secret that only its group reads", volume.Name)
		}
		volumes[volume.Name] = true
	}
	if len(volumes) > 0 && (pod.SecurityContext.FSGroup == nil || *pod.SecurityContext.FSGroup != *pod.SecurityContext.RunAsGroup) {
		return errors.New("the server cannot read its Secrets")
	}
	unused := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if !volumes[mount.Name] || !mount.ReadOnly {
			return fmt.Errorf("%s is mounted, and no volume, or can be written", mount.Name)
		}
		unused[mount.MountPath] = true
	}
	if len(unused) != len(volumes) {
		return errors.New("a volume is not mounted")
	}
	mounted := maps.Clone(unused)
	for _, argument := range pod.Containers[0].Args {
		if _, file, isFile := strings.Cut(argument, "=/etc/guira/"); isFile {
			folder := path.Dir("/etc/guira/" + file)
			if !mounted[folder] {
				return fmt.Errorf("%s: nothing is mounted there", argument)
			}
			delete(unused, folder)
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("no option names a file in %v", unused)
	}
	return nil
}

func checkContainer(pod corev1.PodSpec, service corev1.Service, values map[string]any) error {
	container := pod.Containers[0]
	memory := fmt.Sprint(values["memory"])
	var mebibytes int64
	if _, err := fmt.Sscan(memory, &mebibytes); err != nil {
		return err
	}
	if limit := container.Resources.Limits.Memory().Value(); limit != (mebibytes+256)<<20 {
		return fmt.Errorf("a limit of %d for %s MiB", limit, memory)
	}
	if !slices.Contains(container.Args, "--memory="+memory+"MiB") {
		return fmt.Errorf("%v does not set the memory", container.Args)
	}
	ports := map[string]bool{}
	for _, port := range container.Ports {
		ports[port.Name] = true
	}
	for _, port := range service.Spec.Ports {
		if !ports[port.TargetPort.StrVal] {
			return fmt.Errorf("the service names port %s, which the container has not", port.TargetPort.StrVal)
		}
	}
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		name := ""
		if probe.HTTPGet != nil {
			name = probe.HTTPGet.Port.StrVal
		} else {
			name = probe.TCPSocket.Port.StrVal
		}
		if !ports[name] {
			return fmt.Errorf("a probe asks port %q, which the container has not", name)
		}
	}
	// What ends a pod asks the cache itself.
	if container.LivenessProbe.TCPSocket == nil || container.LivenessProbe.TCPSocket.Port.StrVal != "memcached" {
		return errors.New("the admin listener decides whether the pod lives")
	}
	context := container.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation {
		return errors.New("the container may do more than it needs")
	}
	return nil
}
