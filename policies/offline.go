package policies

import (
	"context"
	"errors"
	"io"
	"log/slog"
)

// Module is a module loaded outside any host, for a look at it without a server.
type Module struct {
	Report    Report
	program   *program
	directory *temporary
}

// Load takes a module through the stages of an upload. A *Refusal is the module's fault. Close frees what is returned.
func Load(ctx context.Context, engine Engine, in io.Reader) (_ *Module, err error) {
	wasm, err := readModule(in)
	if err != nil {
		return nil, err
	}
	m := &Module{}
	silent := slog.New(slog.DiscardHandler)
	engine, m.directory = withPlace(usable(engine, silent), silent)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.directory.remove())
		}
	}()
	w, err := newWorkshop(engine, m.directory.code())
	if err != nil {
		return nil, err
	}
	if m.program, m.Report, err = w.build(ctx, wasm); err != nil {
		return nil, err
	}
	return m, nil
}

// Evaluate asks the module, in a new instance. The error is an *AttributeError, or a *BindingError where the configuration is too large.
func (m *Module) Evaluate(config string, r *Request) (Decision, error) {
	if len(config) > ConfigMax {
		return Decision{}, configError(config)
	}
	if err := CheckAttributes(r.Attributes); err != nil {
		return Decision{}, err
	}
	return m.program.dryRun(config, r), nil
}

// Close frees the module.
func (m *Module) Close() error {
	m.program.close()
	return m.directory.remove()
}

// dryRun evaluates in a new instance; the logs are those of configure and of evaluate.
func (p *program) dryRun(config string, r *Request) Decision {
	i, logs, err := p.instantiate(config)
	if err != nil {
		fault, _ := errors.AsType[*Fault](err)
		return Decision{Act: ActDeny, Outcome: OutcomeFault, Fault: fault, Logs: logs}
	}
	defer i.close()
	d := i.once(r)
	d.Logs = append(logs, d.Logs...)
	return d
}

// readModule reads at most as much as a module may have.
func readModule(in io.Reader) ([]byte, error) {
	wasm, err := io.ReadAll(io.LimitReader(in, ModuleMax+1))
	if err != nil {
		return nil, err
	}
	if len(wasm) > ModuleMax {
		return nil, tooLarge()
	}
	return wasm, nil
}
