package policies

import (
	"bytes"
	"context"
	"os"
	"testing"
)

// goldRequest makes the gold example read one attribute.
func goldRequest() *Request {
	return &Request{Semaphore: "db", Requested: 1, Limit: 100, Available: 50, Attributes: map[string]string{"tier": "gold"}}
}

// BenchmarkEvaluate is what a request pays for its policy: breaker, slot, pool, deadline, call, one attribute. Beside it the
// same without a host, which is a call with a deadline.
func BenchmarkEvaluate(b *testing.B) {
	for language, wasm := range languages(b, "gold") {
		h := newHost(b, Config{})
		put(b, h, "gold", wasm)
		for _, isolation := range []Isolation{IsolationPooled, IsolationFresh} {
			b.Run(language+"/"+string(isolation), func(b *testing.B) {
				binding, request := &Binding{Policy: "gold", Isolation: isolation, Timeout: TimeoutMax}, goldRequest()
				b.ReportAllocs()
				for b.Loop() {
					if d, err := h.Evaluate(context.Background(), binding, request); err != nil || d.Weight != 1 {
						b.Fatalf("%+v %v", d, err)
					}
				}
			})
		}
		b.Run(language+"/bare", func(b *testing.B) { benchmarkBare(b, h) })
	}
}

// benchmarkBare calls an instance under a deadline, and that is all.
func benchmarkBare(b *testing.B, h *Host) {
	v := h.policy("gold").acquire()
	defer v.release()
	i, _, err := v.program.instantiate("")
	if err != nil {
		b.Fatal(err)
	}
	defer i.close()
	request := goldRequest()
	b.ReportAllocs()
	for b.Loop() {
		if answer, fault, _ := i.run(request, TimeoutMax); fault != nil || answer != 1 {
			b.Fatal(answer, fault)
		}
	}
}

// BenchmarkEvaluateParallel shares a policy among as many callers as there are cores.
func BenchmarkEvaluateParallel(b *testing.B) {
	h := newHost(b, Config{})
	put(b, h, "gold", languages(b, "gold")["c"])
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		binding, request := &Binding{Policy: "gold", Timeout: TimeoutMax}, goldRequest()
		for pb.Next() {
			if d, err := h.Evaluate(context.Background(), binding, request); err != nil || d.Weight != 1 {
				b.Errorf("%+v %v", d, err)
				return
			}
		}
	})
}

// BenchmarkInstantiate is a new instance.
func BenchmarkInstantiate(b *testing.B) {
	for language, wasm := range languages(b, "gold") {
		b.Run(language, func(b *testing.B) {
			m, err := Load(b.Context(), Compiler, bytes.NewReader(wasm))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				i, _, err := m.program.instantiate("")
				if err != nil {
					b.Fatal(err)
				}
				i.close()
			}
			if err := m.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

// BenchmarkUpload is an upload of a Go module: cold, with the compiling, and warm, when its code is there.
func BenchmarkUpload(b *testing.B) {
	wasm := goGuest(b, "gold")
	b.Run("cold", func(b *testing.B) {
		h := newHost(b, Config{})
		for b.Loop() {
			put(b, h, "gold", wasm)
			if err := h.Delete(b.Context(), "gold", 0); err != nil {
				b.Fatal(err)
			}
			if err := h.workshop.sweep(func(string) bool { return false }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("warm", func(b *testing.B) {
		h := newHost(b, Config{})
		put(b, h, "gold", wasm)
		for b.Loop() {
			put(b, h, "gold", wasm)
		}
	})
}

// BenchmarkSwaps is 500 swaps of a Go module under the calls of eight: no wrong answer, level memory, one runtime open at the end.
func BenchmarkSwaps(b *testing.B) {
	for b.Loop() {
		swapUnderLoad(b, 500)
	}
}

// BenchmarkScan is what is done before anything is compiled.
func BenchmarkScan(b *testing.B) {
	wasm, err := os.ReadFile("guests/assemblyscript/weights.wasm")
	if err != nil {
		b.Fatal(err)
	}
	for name, wasm := range map[string][]byte{"small": wasm, "go": goGuest(b, "gold")} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			for b.Loop() {
				if _, _, refusal := inspect(wasm); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
