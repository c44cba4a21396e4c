// A client that calls a webhook as the API server does, with Go's own net/http: 25 idle connections, the last used one
// first, 90 s idle, HTTP/1.1 only, and nothing tried twice. It needs the standard library alone.
//
//	apiserver load  -ca tls.crt -replicas 9443:8080,9444:8081 -reviews reviews.jsonl -callers 200 -rate 150
//	apiserver burst -ca tls.crt -replicas 9443:8080 -reviews reviews.jsonl -callers 1000 -within 5s
//
// `load` calls until its standard input ends; a new connection goes to any replica that is ready, as through a Service.
// `burst` sends all at once, and what is answered 429 or 503 with Retry-After once more, as client-go does, until the
// time that a webhook gives is over. Both print what came of it as one line of JSON.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const maxIdle = 25

type replica struct{ port, opsPort string }

// service knows which replicas are ready, as a Service does: a moment late.
type service struct {
	replicas []replica
	ready    atomic.Value
	dialled  atomic.Int64
}

func (s *service) follow(probe *http.Client) {
	for {
		var ready []string
		for _, each := range s.replicas {
			answer, err := probe.Get("http://127.0.0.1:" + each.opsPort + "/readyz")
			if err != nil {
				continue
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				ready = append(ready, each.port)
			}
		}
		s.ready.Store(ready)
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *service) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	ready, _ := s.ready.Load().([]string)
	if len(ready) == 0 {
		return nil, fmt.Errorf("no replica is ready")
	}
	s.dialled.Add(1)
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return dialer.DialContext(ctx, network, "127.0.0.1:"+ready[rand.Intn(len(ready))])
}

func (s *service) client(ca string) (*http.Client, error) {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate", ca)
	}
	return &http.Client{Transport: &http.Transport{
		DialContext:         s.dial,
		TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     90 * time.Second,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}, nil
}

// outcome of one call: what it says is wrong is empty where the pod was admitted with its sidecar.
type outcome struct {
	wrong string
	again time.Duration
	took  time.Duration
}

func call(client *http.Client, path string, review []byte, timeout time.Duration) outcome {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	address := fmt.Sprintf("https://injector.injector-system.svc%s?timeout=%s", path, timeout)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(review))
	if err != nil {
		return outcome{wrong: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	answer, err := client.Do(request)
	if err != nil {
		// Without the URL, whose timeout makes each another.
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return outcome{wrong: err.Error()}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return outcome{wrong: err.Error()}
	}
	if answer.StatusCode != http.StatusOK {
		found := outcome{wrong: strconv.Itoa(answer.StatusCode)}
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err == nil && (answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500) {
			found.again = time.Duration(seconds) * time.Second
		}
		return found
	}
	return outcome{wrong: fault(review, body), took: time.Since(begun)}
}

func fault(review, body []byte) string {
	var asked struct{ Request struct{ UID string } }
	var told struct {
		Response struct {
			UID     string
			Allowed bool
			Patch   []byte
		}
	}
	if err := json.Unmarshal(review, &asked); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return err.Error()
	}
	if told.Response.UID != asked.Request.UID || !told.Response.Allowed || !bytes.Contains(told.Response.Patch, []byte("istio-proxy")) {
		return "answered without a sidecar"
	}
	return ""
}

type report struct {
	mutex   sync.Mutex
	Calls   int            `json:"calls"`
	Again   int            `json:"again"`
	Wrong   map[string]int `json:"wrong"`
	Dialled int64          `json:"dialled"`
	P50     float64        `json:"p50_ms"`
	P99     float64        `json:"p99_ms"`
	Last    float64        `json:"last_s"`
	took    []float64
}

func (r *report) add(found outcome) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.Calls++
	if found.wrong != "" {
		r.Wrong[found.wrong]++
		return
	}
	r.took = append(r.took, float64(found.took.Microseconds())/1000)
}

func (r *report) print(s *service) {
	sort.Float64s(r.took)
	if count := len(r.took); count > 0 {
		r.P50, r.P99 = r.took[count/2], r.took[count*99/100]
	}
	r.Dialled = s.dialled.Load()
	json.NewEncoder(os.Stdout).Encode(r)
}

func load(client *http.Client, found *report, path string, reviews [][]byte, callers int, rate float64) {
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	slots := make(chan struct{}, callers)
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticks.Stop()
	var running sync.WaitGroup
	for number := 0; ; number++ {
		select {
		case <-ended:
			running.Wait()
			return
		case <-ticks.C:
		}
		slots <- struct{}{}
		running.Add(1)
		go func(review []byte) {
			defer running.Done()
			found.add(call(client, path, review, 10*time.Second))
			<-slots
		}(reviews[number%len(reviews)])
	}
}

func burst(client *http.Client, found *report, path string, reviews [][]byte, callers int, within time.Duration) {
	begun := time.Now()
	var running sync.WaitGroup
	for number := 0; number < callers; number++ {
		running.Add(1)
		go func(review []byte) {
			defer running.Done()
			for {
				left := within - time.Since(begun)
				result := call(client, path, review, left)
				if result.again == 0 || time.Since(begun)+result.again >= within {
					result.took = time.Since(begun)
					found.add(result)
					return
				}
				found.mutex.Lock()
				found.Again++
				found.mutex.Unlock()
				time.Sleep(result.again)
			}
		}(reviews[number%len(reviews)])
	}
	running.Wait()
	found.Last = time.Since(begun).Seconds()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "apiserver load|burst FLAGS")
		os.Exit(64)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	ca := flags.String("ca", "", "certificate to trust")
	replicas := flags.String("replicas", "", "port:opsPort,...")
	file := flags.String("reviews", "", "a review a line")
	path := flags.String("path", "/inject/stable", "path of the webhook")
	callers := flags.Int("callers", 200, "calls at once")
	rate := flags.Float64("rate", 150, "calls a second")
	within := flags.Duration("within", 5*time.Second, "timeout of the webhook")
	flags.Parse(os.Args[2:])
	text, err := os.ReadFile(*file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
	reviews := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	found := &service{}
	for _, each := range strings.Split(*replicas, ",") {
		port, opsPort, _ := strings.Cut(each, ":")
		found.replicas = append(found.replicas, replica{port, opsPort})
	}
	go found.follow(&http.Client{Timeout: 2 * time.Second})
	client, err := found.client(*ca)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
	for ready, _ := found.ready.Load().([]string); len(ready) < len(found.replicas); ready, _ = found.ready.Load().([]string) {
		time.Sleep(20 * time.Millisecond)
	}
	told := &report{Wrong: map[string]int{}}
	if os.Args[1] == "burst" {
		burst(client, told, *path, reviews, *callers, *within)
	} else {
		load(client, told, *path, reviews, *callers, *rate)
	}
	told.print(found)
}
