package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	restConnections = 50
	restBar         = 0.6
	restParts       = 3 // control and permitd take turns, so that both see the same neighbours
)

// rest compares acquire and release over REST on the embedded store, durability on, with an empty Echo handler, each in a
// process of its own.
func rest(ctx context.Context, s *stand, length time.Duration) error {
	empty := startEmpty(s)
	permitd := s.serve(s.build(), "--data", s.TempDir())
	var control, got float64
	for range restParts {
		part := length / restParts / 2
		c, err := hammer(ctx, part, func(h *http.Client, _ int) error { _, err := post(ctx, h, empty+"/acquire", "wait=0"); return err })
		if err != nil {
			return err
		}
		g, err := hammer(ctx, part, func(h *http.Client, n int) error { return acquireAndRelease(ctx, h, permitd.url, n) })
		if err != nil {
			return err
		}
		control += c / restParts
		got += 2 * g / restParts // two requests each
	}
	value("an empty Echo handler, requests a second", control, "/s")
	value("permitd, requests a second", got, "/s")
	bar("permitd / empty handler", got/control, "", got/control >= restBar, fmt.Sprintf(">= %.2f", restBar))
	return nil
}

// emptyEnv makes this program an empty Echo server on the address it names.
const emptyEnv = "PERMITD_BENCH_EMPTY"

// serveEmpty serves a handler that reads its input and answers nothing.
func serveEmpty(addr string) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.POST("/acquire", func(c echo.Context) error {
		_, _ = io.Copy(io.Discard, c.Request().Body)
		return c.NoContent(http.StatusOK)
	})
	return e.Start(addr)
}

// startEmpty runs this program as an empty Echo server and returns its URL.
func startEmpty(s *stand) string {
	addr := freeAddr(s)
	startSelf(s, addr, emptyEnv+"="+addr)
	return "http://" + addr
}

// hammer lets all connections repeat do for length and returns how often a second it was done.
func hammer(ctx context.Context, length time.Duration, do func(*http.Client, int) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: restConnections, MaxConnsPerHost: restConnections}}
	defer h.CloseIdleConnections()
	var (
		done    atomic.Int64
		failed  atomic.Value
		clients sync.WaitGroup
	)
	start := time.Now()
	for i := range restConnections {
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := do(h, i); err != nil {
					failed.Store(err)
					cancel()
					return
				}
				done.Add(1)
			}
		})
	}
	clients.Wait()
	if err, ok := failed.Load().(error); ok {
		return 0, err
	}
	return float64(done.Load()) / time.Since(start).Seconds(), nil
}

func acquireAndRelease(ctx context.Context, h *http.Client, url string, n int) error {
	path := fmt.Sprintf("%s/v1/semaphores/bench-%d", url, n)
	body, err := post(ctx, h, path+"/acquire", "create=1&wait=0")
	if err != nil {
		return err
	}
	var l struct{ Lease string }
	if err := json.Unmarshal(body, &l); err != nil {
		return err
	}
	_, err = post(ctx, h, path+"/release", "lease="+l.Lease)
	return err
}

func post(ctx context.Context, h *http.Client, url, form string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(form)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := h.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return body, err
}
