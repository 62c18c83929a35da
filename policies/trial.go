package policies

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Warnings of a report.
const (
	WarningNondeterministic = "nondeterministic"    // the same request got different answers
	WarningFaults           = "faults"              // some requests of the trial ended in a fault
	WarningConfiguration    = "needs_configuration" // configure refuses an empty configuration, so nothing was tried
)

// trialRequests are what a module is asked before it is taken: ordinary requests, and those at the borders.
func trialRequests() []Request {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	gold, silver := map[string]string{"tier": "gold"}, map[string]string{"tier": "silver", "tenant": "a"}
	table := [...]struct {
		requested, limit, available, waiting int64
		attributes                           map[string]string
	}{
		{1, 10, 10, 0, nil},
		{1, 10, 10, 0, gold},
		{1, 10, 10, 0, silver},
		{1, 10, 0, 25, nil},
		{1, 10, 2, 0, gold},
		{2, 10, 2, 1, silver},
		{10, 10, 10, 0, nil},
		{1, 1, 1, 0, nil},
		{1, 1, 0, 1, gold},
		{10_000, 1_000_000, 500_000, 100_000, nil},
		{1, 1_000_000, 1_000_000, 0, silver},
		{5, 100, 20, 3, map[string]string{"": "", "tier": "", "tenant": "b"}},
	}
	requests := make([]Request, len(table))
	for i, t := range table {
		requests[i] = Request{
			Semaphore: "trial", Client: "trial", Holder: "trial", ID: "trial", Now: now,
			Requested: t.requested, Limit: t.limit, Available: t.available, Waiting: t.waiting, Attributes: t.attributes,
		}
	}
	return requests
}

// trial is what two instances answered.
type trial struct {
	program *program
	report  *Report
	answers map[int]string // by request, of the first time
	took    []time.Duration
	differ  bool
	faults  int
	last    *Fault
}

// try makes two instances, asks both the same, and completes the report.
func (p *program) try(report *Report) error {
	t := &trial{program: p, report: report, answers: map[int]string{}}
	for range 2 {
		if err := t.instance(); err != nil {
			return err
		}
	}
	if t.faults == len(t.took) && t.faults > 0 {
		return refused(StageEvaluate, t.last, "an answer to some of the trial's requests")
	}
	if t.faults > 0 {
		report.Warnings = append(report.Warnings, WarningFaults+": "+t.last.Error())
	}
	if t.differ {
		report.Warnings = append(report.Warnings, WarningNondeterministic)
	}
	if len(t.took) > 0 {
		slices.Sort(t.took)
		report.EvaluateNS = t.took[len(t.took)/2].Nanoseconds()
	}
	return nil
}

// instance asks one instance everything twice, the second time in reverse, so that a module that counts its calls is found out
// whatever it counts up to.
func (t *trial) instance() error {
	i, err := t.start()
	if i == nil {
		return err
	}
	defer func() {
		if i != nil {
			i.close()
		}
	}()
	requests := trialRequests()
	for n := range 2 * len(requests) {
		at := min(n, 2*len(requests)-1-n)
		fault := t.ask(i, at, &requests[at])
		if fault == nil {
			continue
		}
		if fault.Kind == FaultTimeout {
			return refused(StageEvaluate, fault, "an answer in "+TimeoutMax.String())
		}
		i.close()
		if i, err = t.start(); i == nil {
			return err
		}
	}
	t.report.Memory = int(i.module.Memory().Size())
	return nil
}

// start makes an instance without configuration. None and no error: the module will not do without one.
func (t *trial) start() (*instance, error) {
	began := time.Now()
	i, _, err := t.program.instantiateAgain("")
	t.report.InstantiateUS = time.Since(began).Microseconds()
	fault, _ := errors.AsType[*Fault](err)
	switch {
	case err == nil:
		return i, nil
	case fault.Kind == FaultBadResult:
		if !slices.Contains(t.report.Warnings, WarningConfiguration) {
			t.report.Warnings = append(t.report.Warnings, WarningConfiguration)
		}
		return nil, nil
	}
	return nil, refused(StageInstantiate, fault, "an instance in "+startTimeMax.String())
}

// ask puts one request and compares the answer with the earlier ones.
func (t *trial) ask(i *instance, at int, r *Request) *Fault {
	d := i.once(r)
	t.took = append(t.took, d.Elapsed)
	answer := fmt.Sprint(d.Outcome, d.Weight, d.HasPriority, d.Priority, d.TTL, d.Reason)
	if first, there := t.answers[at]; there && first != answer {
		t.differ = true
	} else {
		t.answers[at] = answer
	}
	if d.Fault != nil {
		t.faults++
		t.last = d.Fault
	}
	return d.Fault
}

// once evaluates a request outside any pool, under the longest deadline that a binding may have: on a busy machine a shorter one
// would say nothing about the module. After a fault the instance must be thrown away.
func (i *instance) once(r *Request) Decision {
	began := time.Now()
	answer, fault, _ := i.run(r, TimeoutMax)
	took := time.Since(began)
	d := i.call.answered(answer)
	if fault != nil {
		d = faulted(fault, OnFaultDeny, r)
		d.Logs = i.call.said.logs
	}
	d.Elapsed = took
	return d
}

func refused(stage Stage, f *Fault, want string) *Refusal {
	return &Refusal{stage, f.Error(), want, "permitd policy eval runs it with requests of your own"}
}
