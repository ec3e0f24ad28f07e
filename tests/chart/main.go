// Renders the Helm chart as helm does and decodes what comes out strictly, as the types of Kubernetes: with the defaults, which are
// printed, and with what is switched on in cases.go. Decodes the example for a collector of OpenTelemetry as well. Nothing is asked of a cluster. Command lines and configurations are shown to the binary.
//
//	go run . CHART GUIRA > deploy/kubernetes/guira.yaml
package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// The release whose manifest is in the repository.
const release = "guira"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chart CHART GUIRA")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(folder, binary string) error {
	loaded, err := loader.Load(folder)
	if err != nil {
		return err
	}
	for _, each := range refused {
		_, err := render(loaded, each.values, newest)
		if err == nil {
			return fmt.Errorf("%v is not refused", each.values)
		}
		if !strings.Contains(err.Error(), each.because) {
			return fmt.Errorf("%v is refused for another reason than %q: %w", each.values, each.because, err)
		}
	}
	names, err := answerNames()
	if err != nil {
		return err
	}
	defer names.Close()
	program := program{binary: binary, names: names.LocalAddr().String()}
	for _, each := range cases {
		documents, err := render(loaded, each.values, each.version)
		if err == nil {
			err = each.check(documents, program)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
	}
	if err := checkCollector(path.Join(folder, "../../prometheus/otel-collector.yaml")); err != nil {
		return err
	}
	documents, err := render(loaded, map[string]any{}, newest)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(documents, "---\n"))
	return nil
}

// A version of Kubernetes, by its minor number.
type version int

// Before and after a pod can wait before it ends.
const (
	older  version = 29
	newest version = 30
)

// render gives the documents of a release, without those that are empty, in the order of the files' names.
func render(loaded *chart.Chart, values map[string]any, minor version) ([]string, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: fmt.Sprintf("v1.%d.0", minor), Major: "1", Minor: fmt.Sprint(int(minor))}
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
	for name := range files {
		if strings.HasSuffix(path.Base(name), ".yaml") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var documents []string
	for _, name := range names {
		for _, document := range strings.Split("\n"+files[name], "\n---") {
			if document = strings.TrimSpace(document); document != "" {
				documents = append(documents, document+"\n")
			}
		}
	}
	if len(documents) == 0 {
		return nil, errors.New("nothing is rendered")
	}
	return documents, nil
}
