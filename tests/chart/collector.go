package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// collector is as much of the configuration of an OpenTelemetry Collector as ours has. The jobs are Prometheus' own, which a test of the
// admin listeners gives to Prometheus.
type collector struct {
	Receivers struct {
		Prometheus struct {
			Config struct {
				ScrapeConfigs []map[string]any `json:"scrape_configs"`
			} `json:"config"`
		} `json:"prometheus"`
	} `json:"receivers"`
	Processors struct {
		Batch map[string]any `json:"batch"`
	} `json:"processors"`
	Exporters struct {
		OTLP struct {
			Endpoint string `json:"endpoint"`
		} `json:"otlp"`
	} `json:"exporters"`
	Service struct {
		Pipelines map[string]pipeline `json:"pipelines"`
	} `json:"service"`
}

type pipeline struct {
	Receivers  []string `json:"receivers"`
	Processors []string `json:"processors"`
	Exporters  []string `json:"exporters"`
}

// checkCollector looks whether a configuration of a collector has what its pipeline names, and nothing else.
func checkCollector(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all collector
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	metrics := fmt.Sprint(all.Service.Pipelines)
	if metrics != "map[metrics:{[prometheus] [batch] [otlp]}]" {
		return fmt.Errorf("%s: the pipelines are %s", path, metrics)
	}
	if jobs := len(all.Receivers.Prometheus.Config.ScrapeConfigs); jobs != 3 || all.Processors.Batch == nil || all.Exporters.OTLP.Endpoint == "" {
		return fmt.Errorf("%s: a part of the pipeline is missing, or one of the jobs, which are %d", path, jobs)
	}
	return nil
}
