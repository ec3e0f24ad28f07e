// The Go client gomemcache against the servers that server.py names in the environment: what applications do every
// day, over TCP, a UNIX socket and TLS.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const patience = 10 * time.Second

func fail(what string, found any) {
	fmt.Printf("gomemcache: %s: got %v\n", what, found)
	os.Exit(1)
}

func ok(err error, what string) {
	if err != nil {
		fail(what, err)
	}
}

func refused(err, expected error, what string) {
	if err != expected {
		fail(what+" must be refused with "+expected.Error(), err)
	}
}

func set(c *memcache.Client, key, value string) {
	ok(c.Set(item(key, value)), "set of "+key)
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

func holds(c *memcache.Client, key, value string) {
	found, err := c.Get(key)
	ok(err, "get of "+key)
	if string(found.Value) != value {
		fail("value of "+key, len(found.Value))
	}
}

func missing(c *memcache.Client, key string) {
	_, err := c.Get(key)
	refused(err, memcache.ErrCacheMiss, "get of "+key)
}

func storage(c *memcache.Client) {
	set(c, "key", "value")
	holds(c, "key", "value")
	missing(c, "missing")
	set(c, "empty", "")
	holds(c, "empty", "")
	ok(c.Add(item("added", "1")), "add of a new key")
	refused(c.Add(item("added", "2")), memcache.ErrNotStored, "add of a known key")
	ok(c.Replace(item("added", "3")), "replace of a known key")
	refused(c.Replace(item("other", "3")), memcache.ErrNotStored, "replace of a new key")
	ok(c.Append(item("added", ">")), "append")
	ok(c.Prepend(item("added", "<")), "prepend")
	holds(c, "added", "<3>")
	refused(c.Append(item("other", ">")), memcache.ErrNotStored, "append to nothing")
	ok(c.Delete("key"), "delete")
	refused(c.Delete("key"), memcache.ErrCacheMiss, "second delete")
	missing(c, "key")
}

func flags(c *memcache.Client) {
	for _, flags := range []uint32{0, 1, 65535, 4294967295} {
		ok(c.Set(&memcache.Item{Key: "flags", Value: []byte("x"), Flags: flags}), "set with flags")
		found, err := c.Get("flags")
		ok(err, "get with flags")
		if found.Flags != flags {
			fail("flags", found.Flags)
		}
	}
}

func counters(c *memcache.Client) {
	set(c, "count", "10")
	if value, err := c.Increment("count", 5); err != nil || value != 15 {
		fail("incr", value)
	}
	if value, err := c.Decrement("count", 20); err != nil || value != 0 {
		fail("decr stops at zero", value)
	}
	_, err := c.Increment("missing", 1)
	refused(err, memcache.ErrCacheMiss, "incr of a missing key")
	set(c, "word", "x")
	if _, err := c.Increment("word", 1); err == nil || !strings.Contains(err.Error(), "non-numeric") {
		fail("incr of a word", err)
	}
}

func many(c *memcache.Client) {
	keys := make([]string, 500)
	for number := range keys {
		keys[number] = fmt.Sprintf("many%d", number)
		set(c, keys[number], fmt.Sprintf("v%d", number))
	}
	found, err := c.GetMulti(append(keys, "missing"))
	ok(err, "get of many")
	if len(found) != len(keys) || string(found["many499"].Value) != "v499" {
		fail("get of many", len(found))
	}
}

func compareAndSwap(c *memcache.Client) {
	set(c, "cas", "old")
	first, err := c.Get("cas")
	ok(err, "gets")
	second, err := c.Get("cas")
	ok(err, "gets")
	first.Value, second.Value = []byte("new"), []byte("late")
	ok(c.CompareAndSwap(first), "cas with the current unique")
	refused(c.CompareAndSwap(second), memcache.ErrCASConflict, "cas with an old unique")
	ok(c.Delete("cas"), "delete")
	refused(c.CompareAndSwap(second), memcache.ErrCacheMiss, "cas of a missing key")
}

func expiration(c *memcache.Client) {
	ok(c.Set(&memcache.Item{Key: "long", Value: []byte("x"), Expiration: 500}), "set with a time")
	ok(c.Touch("long", 600), "touch")
	refused(c.Touch("missing", 600), memcache.ErrCacheMiss, "touch of a missing key")
	_, err := c.GetAndTouch("long", 1)
	ok(err, "get and touch")
	ok(c.Set(&memcache.Item{Key: "second", Value: []byte("x"), Expiration: 1}), "set for a second")
	deadline := time.Now().Add(patience)
	for _, key := range []string{"second", "long"} {
		for {
			if _, err := c.Get(key); err == memcache.ErrCacheMiss {
				break
			}
			if time.Now().After(deadline) {
				fail("an item of one second does not expire", key)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func keysAndValues(c *memcache.Client) {
	for _, key := range []string{strings.Repeat("k", 250), "schlüssel-键-ключ"} {
		set(c, key, key)
		holds(c, key, key)
	}
	large := make([]byte, 1<<20-1000)
	for index := range large {
		large[index] = byte(index % 251)
	}
	ok(c.Set(&memcache.Item{Key: "large", Value: large}), "set of a large value")
	found, err := c.Get("large")
	ok(err, "get of a large value")
	if !bytes.Equal(found.Value, large) {
		fail("large value", len(found.Value))
	}
	if err := c.Set(&memcache.Item{Key: "large", Value: make([]byte, 1<<20)}); err == nil {
		fail("set of too much", err)
	}
	set(c, "after", "x")
}

func administration(c *memcache.Client) {
	ok(c.Ping(), "ping")
	ok(c.FlushAll(), "flush_all")
	missing(c, "after")
}

func run(name, address string, dial func(context.Context, string, string) (net.Conn, error)) {
	client := memcache.New(address)
	client.Timeout = patience
	client.DialContext = dial
	ok(client.FlushAll(), "flush_all over "+name)
	steps := []func(*memcache.Client){
		storage, flags, counters, many, compareAndSwap, expiration, keysAndValues, administration,
	}
	for _, step := range steps {
		step(client)
	}
	ok(client.Close(), "close")
	fmt.Printf("gomemcache over %s: %d groups of calls as expected\n", name, len(steps))
}

func main() {
	certificate, err := os.ReadFile(os.Getenv("GUIRA_CERTIFICATE"))
	ok(err, "certificate")
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(certificate) {
		fail("certificate", len(certificate))
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: authorities}}
	run("TCP", os.Getenv("GUIRA_PLAIN"), nil)
	run("a UNIX socket", os.Getenv("GUIRA_UNIX"), nil)
	run("TLS", os.Getenv("GUIRA_TLS"), dialer.DialContext)
}
