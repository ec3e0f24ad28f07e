package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

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

// The documents of a release, by kind and name.
type decoded struct {
	sets           map[string]*appsv1.StatefulSet
	services       map[string]*corev1.Service
	budgets        map[string]*policyv1.PodDisruptionBudget
	monitors       map[string]*ServiceMonitor
	configurations map[string]*corev1.ConfigMap
}

func decode(documents []string) (decoded, error) {
	all := decoded{map[string]*appsv1.StatefulSet{}, map[string]*corev1.Service{}, map[string]*policyv1.PodDisruptionBudget{},
		map[string]*ServiceMonitor{}, map[string]*corev1.ConfigMap{}}
	for _, document := range documents {
		var meta struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        metav1.ObjectMeta `json:"metadata"`
		}
		err := yaml.Unmarshal([]byte(document), &meta)
		if err == nil {
			name := meta.Metadata.Name
			switch meta.Kind {
			case "StatefulSet":
				err = put(all.sets, name, document)
			case "Service":
				err = put(all.services, name, document)
			case "PodDisruptionBudget":
				err = put(all.budgets, name, document)
			case "ServiceMonitor":
				err = put(all.monitors, name, document)
			case "ConfigMap":
				err = put(all.configurations, name, document)
			default:
				err = fmt.Errorf("kind %q is not expected", meta.Kind)
			}
		}
		if err != nil {
			return all, fmt.Errorf("%w\n%s", err, document)
		}
	}
	return all, nil
}

func put[T any](into map[string]*T, name, document string) error {
	if _, isThere := into[name]; isThere {
		return errors.New("there are two of this kind and name")
	}
	into[name] = new(T)
	return yaml.UnmarshalStrict([]byte(document), into[name])
}

// check looks whether each document finds the pods that it is for, and no others.
func (all decoded) check(minor version) error {
	for name, set := range all.sets {
		if owners := all.selected(*set.Spec.Selector); !slices.Equal(owners, []string{name}) {
			return fmt.Errorf("the StatefulSet %s selects pods of %v", name, owners)
		}
		governing := all.services[set.Spec.ServiceName]
		if governing == nil || governing.Spec.ClusterIP != "None" {
			return fmt.Errorf("%s: there is no headless Service %q", name, set.Spec.ServiceName)
		}
		if owners := all.selected(metav1.LabelSelector{MatchLabels: governing.Spec.Selector}); !slices.Equal(owners, []string{name}) {
			return fmt.Errorf("%s is governed by a Service that selects pods of %v", name, owners)
		}
		if err := checkPod(set, all.configurations, minor); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, service := range all.services {
		owners := all.selected(metav1.LabelSelector{MatchLabels: service.Spec.Selector})
		if len(owners) != 1 {
			return fmt.Errorf("the Service %s selects pods of %v", name, owners)
		}
		for _, port := range service.Spec.Ports {
			if !hasPort(all.container(owners[0]), port.TargetPort.StrVal) {
				return fmt.Errorf("the Service %s names port %s, which the container has not", name, port.TargetPort.StrVal)
			}
		}
	}
	for name, budget := range all.budgets {
		if owners := all.selected(*budget.Spec.Selector); !slices.Equal(owners, []string{name}) {
			return fmt.Errorf("the PodDisruptionBudget %s selects pods of %v", name, owners)
		}
	}
	for name, monitor := range all.monitors {
		if err := all.checkMonitor(monitor); err != nil {
			return fmt.Errorf("the ServiceMonitor %s %w", name, err)
		}
	}
	return nil
}

// selected gives the names of the StatefulSets whose pods a selector means.
func (all decoded) selected(selector metav1.LabelSelector) []string {
	matcher, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return []string{err.Error()}
	}
	var names []string
	for name, set := range all.sets {
		if matcher.Matches(labels.Set(set.Spec.Template.Labels)) {
			names = append(names, name)
		}
	}
	return names
}

func (all decoded) container(set string) corev1.Container {
	return all.sets[set].Spec.Template.Spec.Containers[0]
}

// checkMonitor looks which pods are scraped, and compares how figures are asked for with how the container shows them.
func (all decoded) checkMonitor(monitor *ServiceMonitor) error {
	endpoint := monitor.Spec.Endpoints[0]
	matcher, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		return err
	}
	var found []string
	for _, service := range all.services {
		isThere := slices.ContainsFunc(service.Spec.Ports, func(each corev1.ServicePort) bool { return each.Name == endpoint.Port })
		if isThere && matcher.Matches(labels.Set(service.Labels)) {
			found = append(found, all.selected(metav1.LabelSelector{MatchLabels: service.Spec.Selector})...)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("finds pods of %v", found)
	}
	container := all.container(found[0])
	has := func(prefix string) bool {
		return slices.ContainsFunc(container.Args, func(each string) bool { return strings.HasPrefix(each, prefix) })
	}
	if speaksTLS := has("--admin=btls:"); speaksTLS != (endpoint.Scheme == "https") || speaksTLS != (container.ReadinessProbe.HTTPGet.Scheme == corev1.URISchemeHTTPS) {
		return errors.New("or the probe speaks TLS where the admin listener does not, or the other way round")
	}
	isMounted := slices.ContainsFunc(container.VolumeMounts, func(each corev1.VolumeMount) bool { return each.MountPath == "/etc/guira/admin" })
	if isMounted != (endpoint.Authorization != nil) || has("--admin=") && isMounted != has("--admin-token-file=") {
		return errors.New("shows a token that is not asked for, or none that is")
	}
	return nil
}

func hasPort(container corev1.Container, name string) bool {
	return slices.ContainsFunc(container.Ports, func(each corev1.ContainerPort) bool { return each.Name == name })
}
