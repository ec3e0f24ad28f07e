package main

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func checkPod(set *appsv1.StatefulSet, configurations map[string]*corev1.ConfigMap, minor version) error {
	pod := set.Spec.Template.Spec
	for _, check := range []func(*appsv1.StatefulSet) error{checkProbes, checkMemory, checkSpread, checkRegion} {
		if err := check(set); err != nil {
			return err
		}
	}
	folders, err := checkVolumes(set, configurations)
	if err != nil {
		return err
	}
	if err := checkFiles(pod.Containers[0].Args, folders); err != nil {
		return err
	}
	context := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation {
		return errors.New("the container may do more than it needs")
	}
	return checkEnd(set, minor)
}

// checkEnd looks how long a pod goes on before it ends. Only routers are taken out of a Service meanwhile.
func checkEnd(set *appsv1.StatefulSet, minor version) error {
	pod := set.Spec.Template.Spec
	lifecycle := pod.Containers[0].Lifecycle
	if lifecycle == nil {
		return nil
	}
	if minor < newest || set.Name != "guira-router" {
		return errors.New("it waits before it ends where it cannot, or where that is in vain")
	}
	if seconds := lifecycle.PreStop.Sleep.Seconds; seconds <= 0 || *pod.TerminationGracePeriodSeconds < seconds+10 {
		return fmt.Errorf("it waits for %d s, of %d s that it has to end", seconds, *pod.TerminationGracePeriodSeconds)
	}
	return nil
}

// checkVolumes looks whether what is mounted is there, and whether the container can read or write it. It gives the folders of configuration.
func checkVolumes(set *appsv1.StatefulSet, configurations map[string]*corev1.ConfigMap) (map[string]bool, error) {
	pod := set.Spec.Template.Spec
	// Whether each can be written.
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		switch {
		case volume.Secret != nil:
			if volume.Secret.SecretName == "" || *volume.Secret.DefaultMode != 0o440 {
				return nil, fmt.Errorf("volume %s is no Secret that only its group reads", volume.Name)
			}
			volumes[volume.Name] = false
		case volume.ConfigMap != nil:
			if _, isThere := configurations[volume.ConfigMap.Name]; !isThere {
				return nil, fmt.Errorf("there is no ConfigMap %s", volume.ConfigMap.Name)
			}
			volumes[volume.Name] = false
		case volume.EmptyDir != nil:
			volumes[volume.Name] = true
		default:
			return nil, fmt.Errorf("volume %s is of no kind that is expected", volume.Name)
		}
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		if claim.Spec.Resources.Requests.Storage().IsZero() {
			return nil, fmt.Errorf("the claim %s is for no storage", claim.Name)
		}
		volumes[claim.Name] = true
	}
	if set.Name == "guira-invalidator" && len(set.Spec.VolumeClaimTemplates) == 0 {
		return nil, errors.New("the position does not outlast the pod")
	}
	if len(volumes) > 0 && (pod.SecurityContext.FSGroup == nil || *pod.SecurityContext.FSGroup != *pod.SecurityContext.RunAsGroup) {
		return nil, errors.New("the container cannot read its Secrets, or write to its volumes")
	}
	folders := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		canWrite, isThere := volumes[mount.Name]
		if !isThere || canWrite == mount.ReadOnly {
			return nil, fmt.Errorf("%s is mounted, and no volume, or can be written where it should not", mount.Name)
		}
		delete(volumes, mount.Name)
		if !canWrite {
			folders[mount.MountPath] = true
		} else if isNamed := slices.ContainsFunc(pod.Containers[0].Args, func(each string) bool {
			return strings.HasSuffix(each, "="+mount.MountPath) || strings.Contains(each, "="+mount.MountPath+"/")
		}); !isNamed && set.Name != "guira-invalidator" {
			return nil, fmt.Errorf("no option names %s", mount.MountPath)
		}
	}
	if len(volumes) > 0 {
		return nil, fmt.Errorf("%v are not mounted", volumes)
	}
	return folders, nil
}

// checkFiles looks whether every file that an option names lies in a folder that is mounted, and every folder is used.
func checkFiles(arguments []string, folders map[string]bool) error {
	unused := maps.Clone(folders)
	for _, argument := range arguments {
		if _, file, isFile := strings.Cut(argument, "/etc/guira/"); isFile {
			folder := path.Dir("/etc/guira/" + file)
			if !folders[folder] {
				return fmt.Errorf("%s: nothing is mounted there", argument)
			}
			delete(unused, folder)
		}
	}
	// Who has a configuration of his own names the token there.
	if !slices.ContainsFunc(arguments, func(each string) bool { return strings.HasPrefix(each, "--admin=") }) {
		delete(unused, "/etc/guira/admin")
	}
	if len(unused) > 0 {
		return fmt.Errorf("no option names a file in %v", unused)
	}
	return nil
}

func checkProbes(set *appsv1.StatefulSet) error {
	container := set.Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		if probe == nil {
			continue
		}
		if probe.Exec != nil {
			port := container.Ports[0].ContainerPort
			if command := strings.Join(probe.Exec.Command, " "); command != fmt.Sprintf("guira ready 127.0.0.1:%d", port) {
				return fmt.Errorf("a probe runs %q, and the port is %d", command, port)
			}
			continue
		}
		name := ""
		if probe.HTTPGet != nil {
			name = probe.HTTPGet.Port.StrVal
		} else {
			name = probe.TCPSocket.Port.StrVal
		}
		if !hasPort(container, name) {
			return fmt.Errorf("a probe asks port %q, which the container has not", name)
		}
	}
	if set.Name == "guira-invalidator" {
		return nil
	}
	// What ends a pod asks what it serves.
	if live := container.LivenessProbe; container.StartupProbe == nil || container.ReadinessProbe == nil || live == nil || live.TCPSocket == nil || live.TCPSocket.Port.StrVal == "metrics" {
		return errors.New("a probe is missing, or the admin listener decides whether the pod lives")
	}
	return nil
}

// checkMemory compares the limit of a server with its ceiling.
func checkMemory(set *appsv1.StatefulSet) error {
	container := set.Spec.Template.Spec.Containers[0]
	limit := container.Resources.Limits.Memory().Value()
	if limit < 64<<20 {
		return fmt.Errorf("a limit of %d", limit)
	}
	if container.Args[1] != "serve" {
		return nil
	}
	if ceiling := fmt.Sprintf("--memory=%dMiB", limit>>20-256); !slices.Contains(container.Args, ceiling) {
		return fmt.Errorf("a limit of %d, and not %s: %q", limit, ceiling, container.Args)
	}
	return nil
}

// checkRegion looks whether a cache with a region has room for it, and time to close it.
func checkRegion(set *appsv1.StatefulSet) error {
	pod := set.Spec.Template.Spec
	hasRegion := slices.ContainsFunc(pod.Containers[0].Args, func(each string) bool { return strings.HasPrefix(each, "--region=") })
	if !hasRegion {
		return nil
	}
	ceiling := pod.Containers[0].Resources.Limits.Memory().Value() - 256<<20
	for _, volume := range pod.Volumes {
		if room := volume.EmptyDir; room != nil && (room.Medium != corev1.StorageMediumMemory || room.SizeLimit.Value() != ceiling) {
			return fmt.Errorf("the region has %v of %q, for %d", room.SizeLimit, room.Medium, ceiling)
		}
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		if room := claim.Spec.Resources.Requests.Storage().Value(); room*5 < ceiling*6 {
			return fmt.Errorf("the region has a volume of %d, for %d", room, ceiling)
		}
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace < 60 {
		return fmt.Errorf("the cache has %d s to close its region", grace)
	}
	return nil
}

// checkSpread looks whether pods are spread by a selector that means them.
func checkSpread(set *appsv1.StatefulSet) error {
	for _, each := range set.Spec.Template.Spec.TopologySpreadConstraints {
		matcher, err := metav1.LabelSelectorAsSelector(each.LabelSelector)
		if err != nil {
			return err
		}
		if !matcher.Matches(labels.Set(set.Spec.Template.Labels)) {
			return errors.New("its pods are not those that are spread")
		}
	}
	return nil
}
