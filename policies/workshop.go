package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// workshop turns uploaded bytes into programs, one at a time.
type workshop struct {
	engine    Engine
	directory string          // private; one folder of code a module
	bench     chan struct{}   // holds an element while something is built; guards what follows
	done      map[string]bool // modules whose code this process has had compiled
}

// newWorkshop works in a directory that nobody else may write: what the compiler leaves there is run as it is. The interpreter needs none.
func newWorkshop(engine Engine, directory string) (*workshop, error) {
	if engine == Compiler {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return nil, err
		}
		if err := os.Chmod(directory, 0o700); err != nil {
			return nil, err
		}
	}
	return &workshop{engine, directory, make(chan struct{}, 1), map[string]bool{}}, nil
}

// Report is what an upload tells of a module.
type Report struct {
	SHA256        string   `json:"sha256"`
	ABI           int      `json:"abi"`
	Size          int      `json:"size"`   // bytes
	Memory        int      `json:"memory"` // bytes, of an instance that has answered
	CompileMS     int64    `json:"compile_ms"`
	InstantiateUS int64    `json:"instantiate_us"`
	EvaluateNS    int64    `json:"evaluate_ns"` // the median of the trial
	Warnings      []string `json:"warnings,omitempty"`
}

// sum names a module.
func sum(wasm []byte) string {
	s := sha256.Sum256(wasm)
	return hex.EncodeToString(s[:])
}

// build makes a program of a module and tries it. A *Refusal is the module's fault; it comes at the cheapest stage that finds it.
func (w *workshop) build(ctx context.Context, wasm []byte) (*program, Report, error) {
	report := Report{SHA256: sum(wasm), ABI: abiVersion, Size: len(wasm)}
	m, rewritten, refusal := inspect(wasm)
	if refusal != nil {
		return nil, report, refusal
	}
	select {
	case w.bench <- struct{}{}:
	case <-ctx.Done():
		return nil, report, ctx.Err()
	}
	defer func() { <-w.bench }()
	began := time.Now()
	p, err := w.compile(ctx, report.SHA256, m, rewritten)
	if err != nil {
		return nil, report, err
	}
	report.CompileMS = time.Since(began).Milliseconds()
	if err := p.try(&report); err != nil {
		p.close()
		return nil, report, err
	}
	return p, report, nil
}

// compile makes a program. Where code lies from before it may be damaged, so what fails then is tried once more from nothing.
func (w *workshop) compile(ctx context.Context, name string, m *module, rewritten []byte) (*program, error) {
	folder := filepath.Join(w.directory, name)
	if w.engine == Interpreter {
		p, err := load(ctx, Interpreter, folder, m, rewritten)
		if err != nil { // there was no child that would have said so
			return nil, &Refusal{StageCompile, firstLine([]byte(err.Error())), "a valid module", "check it with wasm-validate"}
		}
		return p, nil
	}
	_, missing := os.Stat(folder)
	for again := missing != nil; ; again = true {
		err := w.inChild(ctx, name, folder, rewritten)
		if err == nil {
			var p *program
			if p, err = load(ctx, Compiler, folder, m, rewritten); err == nil {
				return p, nil
			}
			err = fmt.Errorf("the code of %s can not be loaded: %w", name, err)
		}
		delete(w.done, name)
		if e := os.RemoveAll(folder); e != nil || again || ctx.Err() != nil {
			return nil, errors.Join(err, e)
		}
	}
}

// inChild has a module compiled, once in this process.
func (w *workshop) inChild(ctx context.Context, name, folder string, rewritten []byte) error {
	if w.done[name] {
		return nil
	}
	if err := compileInChild(ctx, folder, rewritten); err != nil {
		return err
	}
	w.done[name] = true
	return nil
}

// sweep removes the code of modules that nobody will load again.
func (w *workshop) sweep(keep func(sum string) bool) error {
	if w.engine == Interpreter {
		return nil
	}
	w.bench <- struct{}{}
	defer func() { <-w.bench }()
	folders, err := os.ReadDir(w.directory)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if keep(f.Name()) {
			continue
		}
		delete(w.done, f.Name())
		if err := os.RemoveAll(filepath.Join(w.directory, f.Name())); err != nil {
			return err
		}
	}
	return nil
}
