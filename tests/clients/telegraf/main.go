// What Telegraf's input for memcached finds of a server, once, as JSON.
//
//	telegraf_memcached HOST:PORT
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs/memcached"
)

// sink takes what the input finds; it asks an accumulator for nothing else.
type sink struct {
	telegraf.Accumulator
	fields map[string]any
	err    error
}

func (s *sink) AddFields(_ string, fields map[string]any, _ map[string]string, _ ...time.Time) {
	s.fields = fields
}

func (s *sink) AddError(err error) {
	if err != nil {
		s.err = err
	}
}

func main() {
	input := &memcached.Memcached{Servers: os.Args[1:]}
	var found sink
	if err := input.Gather(&found); err != nil {
		found.err = err
	}
	if found.err == nil {
		found.err = json.NewEncoder(os.Stdout).Encode(found.fields)
	}
	if found.err != nil {
		fmt.Fprintln(os.Stderr, found.err)
		os.Exit(1)
	}
}
