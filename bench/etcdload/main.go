// Command etcdload loads and probes an etcd cluster with its own client; one JSON object on stdout.
//
//	etcdload load -endpoints a,b,c -clients 100 -seconds 5     closed loop, one put in flight a client
//	etcdload probe -endpoints a,b,c -seconds 5 -output FILE    one closed loop a member; prints "ready" with the first commit, and
//	                                                           writes the times of commits into the file
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

var (
	endpoints   = flag.String("endpoints", "", "client addresses, comma separated")
	clients     = flag.Int("clients", 1, "concurrent clients")
	connections = flag.Int("connections", 100, "at most so many connections")
	seconds     = flag.Float64("seconds", 5, "how long")
	warmup      = flag.Float64("warmup", 1, "seconds before the measurement")
	valueBytes  = flag.Int("value-bytes", 256, "size of a value")
	attempt     = flag.Duration("attempt", 100*time.Millisecond, "probe: timeout of one put")
	output      = flag.String("output", "", "probe: file for the result")
	folder      = flag.String("tls", "", "folder with tls.crt, tls.key and ca.crt; none: clear text")
	pause       = flag.Duration("pause", 2*time.Millisecond, "probe: pause after a failed put")
)

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// security is nil in clear text.
func security() *tls.Config {
	if *folder == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(*folder, "tls.crt"), filepath.Join(*folder, "tls.key"))
	if err != nil {
		fail(err)
	}
	trusted, err := os.ReadFile(filepath.Join(*folder, "ca.crt"))
	if err != nil {
		fail(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
}

func open(config *tls.Config, addresses ...string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addresses, DialTimeout: 2 * time.Second, Logger: zap.NewNop(), TLS: config,
	})
	if err != nil {
		fail(err)
	}
	return client
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func load(addresses []string) map[string]any {
	value, config := strings.Repeat("v", *valueBytes), security()
	pool := make([]*clientv3.Client, min(*clients, *connections))
	for i := range pool {
		pool[i] = open(config, addresses...)
	}
	var measuring atomic.Bool
	var failures atomic.Int64
	stop := make(chan struct{})
	latencies := make([][]time.Duration, *clients)
	var group sync.WaitGroup
	for i := range latencies {
		group.Add(1)
		go func() {
			defer group.Done()
			for count := 0; ; count++ {
				select {
				case <-stop:
					return
				default:
				}
				start, counted := time.Now(), measuring.Load()
				_, err := pool[i%len(pool)].Put(context.Background(), fmt.Sprintf("bench-%d", i), value)
				if err != nil {
					failures.Add(1)
				} else if counted {
					latencies[i] = append(latencies[i], time.Since(start))
				}
			}
		}()
	}
	time.Sleep(time.Duration(*warmup * float64(time.Second)))
	start := time.Now()
	measuring.Store(true)
	time.Sleep(time.Duration(*seconds * float64(time.Second)))
	measuring.Store(false)
	elapsed := time.Since(start)
	close(stop)
	group.Wait()
	var all []time.Duration
	for _, some := range latencies {
		all = append(all, some...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	at := func(share float64) float64 {
		return milliseconds(all[min(len(all)-1, int(share*float64(len(all))))])
	}
	return map[string]any{
		"count": len(all), "failures": failures.Load(), "per_second": float64(len(all)) / elapsed.Seconds(),
		"p50_ms": at(.5), "p90_ms": at(.9), "p99_ms": at(.99), "max_ms": at(1),
	}
}

func probe(addresses []string) map[string]any {
	var lock sync.Mutex
	var commits []float64
	config := security()
	var end time.Time
	running := func() bool {
		lock.Lock()
		defer lock.Unlock()
		return end.IsZero() || time.Now().Before(end)
	}
	committed := func() {
		lock.Lock()
		defer lock.Unlock()
		if end.IsZero() { // the time to run begins with the first commit, which is announced
			end = time.Now().Add(time.Duration(*seconds * float64(time.Second)))
			fmt.Println("ready")
		}
		commits = append(commits, float64(time.Now().UnixNano())/1e9)
	}
	var group sync.WaitGroup
	for _, address := range addresses {
		group.Add(1)
		go func() {
			defer group.Done()
			client := open(config, address)
			for running() {
				ctx, cancel := context.WithTimeout(context.Background(), *attempt)
				_, err := client.Put(ctx, "probe", "v")
				cancel()
				if err != nil {
					time.Sleep(*pause)
					continue
				}
				committed()
			}
		}()
	}
	group.Wait()
	sort.Float64s(commits)
	return map[string]any{"commits": commits}
}

func main() {
	verb := os.Args[1]
	_ = flag.CommandLine.Parse(os.Args[2:])
	addresses := strings.Split(*endpoints, ",")
	result := map[string]func([]string) map[string]any{"load": load, "probe": probe}[verb](addresses)
	file := os.Stdout
	if *output != "" {
		var err error
		if file, err = os.Create(*output); err != nil {
			fail(err)
		}
		defer file.Close()
	}
	if err := json.NewEncoder(file).Encode(result); err != nil {
		fail(err)
	}
}
