package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// instance is a module with a memory of its own, for one goroutine at a time. After any error it is thrown away: it looks
// open, but a guest that was stopped midway is not what it was.
type instance struct {
	module   api.Module
	evaluate api.Function
	config   string
	call     call
	stack    [4]uint64
	uses     int
	born     time.Time
	bornSize uint32 // bytes of memory
}

// instantiate makes an instance for a configuration: the start function, _initialize and configure have startTimeMax in all. The
// error is a *Fault. The logs are those of configure.
func (p *program) instantiate(config string) (_ *instance, logs []LogLine, err error) {
	now := time.Now()
	i := &instance{config: config, born: now}
	i.call = call{deadline: newDeadline(startTimeMax), request: &Request{}, config: config}
	err = i.start(p)
	if !i.call.stop() && err == nil {
		err = &Fault{FaultTimeout, "stopped in the start"}
	}
	if err != nil && i.module != nil {
		i.close()
	}
	return i, i.call.said.logs, err
}

// start makes the module and runs what it has to run before the first evaluation.
func (i *instance) start(p *program) (err error) {
	c := &i.call
	i.module, err = p.runtime.InstantiateModule(c, p.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		i.module = nil
		return c.faultOf(err)
	}
	if p.initializes {
		if _, err := i.module.ExportedFunction(exportInitialize).Call(c); err != nil {
			return c.faultOf(err)
		}
	}
	if p.configures {
		if err := i.configure(); err != nil {
			return err
		}
	}
	i.evaluate = i.module.ExportedFunction(exportEvaluate)
	i.bornSize = i.module.Memory().Size()
	return nil
}

func (i *instance) configure() error {
	i.call.phase = configuring
	results, err := i.module.ExportedFunction(exportConfigure).Call(&i.call)
	if err != nil {
		return i.call.faultOf(err)
	}
	if code := int32(uint32(results[0])); code != 0 {
		return &Fault{FaultBadResult, fmt.Sprintf("configure answered %d", code)}
	}
	return nil
}

// instantiateAgain makes an instance where nobody waits for it and a module would be refused: what took too long gets a second try,
// since a machine that is busy for a moment says nothing about the module.
func (p *program) instantiateAgain(config string) (*instance, []LogLine, error) {
	i, logs, err := p.instantiate(config)
	if fault, is := errors.AsType[*Fault](err); is && fault.Kind == FaultTimeout {
		return p.instantiate(config)
	}
	return i, logs, err
}

// run evaluates a request; what the module set is in call.said then. After a fault the instance must be thrown away; late tells that
// it had been closed before the call, by the deadline of an earlier one that had already answered.
func (i *instance) run(r *Request, timeout time.Duration) (answer int64, fault *Fault, late bool) {
	c := &i.call
	c.begin(r)
	i.stack = [...]uint64{uint64(r.Requested), uint64(r.Limit), uint64(r.Available), uint64(r.Waiting)}
	i.uses++
	c.start(timeout)
	err := i.evaluate.CallWithStack(c, i.stack[:])
	inTime := c.stop()
	if err != nil {
		exit, isExit := errors.AsType[*sys.ExitError](err)
		late = isExit && c.fault == nil && inTime && deadlineCode(exit.ExitCode())
		return 0, c.faultOf(err), late
	}
	answer = int64(i.stack[0])
	if answer < answerDeny {
		return 0, &Fault{FaultBadResult, fmt.Sprintf("evaluate answered %d", answer)}, false
	}
	return answer, nil, false
}

// settle readies the instance for the next call, after one that took so long. Code that recurses deeply has made its stack large, up to
// 50 MB that no limit of memory counts, and it would keep that; it takes longer than stackKept, too. So whatever does gets a new stack.
func (i *instance) settle(took time.Duration) {
	if took > stackKept {
		i.evaluate = i.module.ExportedFunction(exportEvaluate)
	}
}

// Answers of evaluate below 1.
const (
	answerNone = 0
	answerDeny = -1
)

func deadlineCode(code uint32) bool {
	return code == sys.ExitCodeDeadlineExceeded || code == sys.ExitCodeContextCanceled
}

// faultOf says what an error of the runtime means. Its text carries stacks, so of it only the first line is kept.
func (c *call) faultOf(err error) *Fault {
	if c.fault != nil {
		return c.fault
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		if c.Err() != nil && deadlineCode(exit.ExitCode()) {
			return &Fault{FaultTimeout, "stopped in " + phaseNames[c.phase]}
		}
		return &Fault{FaultExit, fmt.Sprintf("exit code %d", exit.ExitCode())}
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = strings.TrimPrefix(line, "wasm error: ")
	line = strings.TrimSuffix(line, " (recovered by wazero)")
	return &Fault{FaultTrap, bounded([]byte(line), detailMax)}
}

// spent tells why an instance is not to be used again, if so.
func (i *instance) spent(now time.Time) string {
	size := i.module.Memory().Size()
	switch {
	case i.module.IsClosed() || i.call.over.Load():
		return discardClosed
	case i.uses >= instanceUsesMax:
		return discardUses
	case now.Sub(i.born) >= instanceAgeMax:
		return discardAge
	case size > i.bornSize && size >= instanceBytesMax:
		return discardMemory
	}
	return ""
}

// close frees the instance. It has no files that could fail to close.
func (i *instance) close() { _ = i.module.Close(context.Background()) }
