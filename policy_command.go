package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/permitd/permitd/policies"
	"github.com/permitd/permitd/server/client"
)

// exitData is for a module that cannot be a policy, of sysexits.h.
const exitData = 65

// newPolicy has the commands about policies. check and eval need no server.
func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "WebAssembly modules that say what requests weigh",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyCheck(), newPolicyEval(), newPolicyPut(), newPolicyList(), newPolicyBind(), newPolicyShadow(), newPolicyRemove())
	return cmd
}

func knownEngine(name string) bool {
	return name == string(policies.Compiler) || name == string(policies.Interpreter)
}

// offline is what the commands have that run a module themselves.
type offline struct {
	engine string
	json   bool
}

func (o *offline) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.engine, "wasm-engine", string(policies.Compiler), "how the module runs: compiler or interpreter")
	flags.BoolVar(&o.json, "json", false, "print JSON")
}

// load takes a module through all that an upload does. "-" is the standard input.
func (o *offline) load(cmd *cobra.Command, file string) (*policies.Module, error) {
	if !knownEngine(o.engine) {
		return nil, errors.New("--wasm-engine must be compiler or interpreter")
	}
	in, err := openInput(cmd, file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	m, err := policies.Load(cmd.Context(), policies.Engine(o.engine), in)
	if _, ok := errors.AsType[*policies.Refusal](err); ok {
		return nil, &exitError{exitData, err}
	} else if err != nil {
		return nil, internal(err)
	}
	return m, nil
}

func openInput(cmd *cobra.Command, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(file)
}

// newPolicyCheck tells whether a module can be a policy.
func newPolicyCheck() *cobra.Command {
	o := &offline{}
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Tell whether a module can be a policy, without a server",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			m, err := o.load(cmd, args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, m.Close()) }()
			if o.json {
				return printJSON(cmd.OutOrStdout(), m.Report)
			}
			return printReport(cmd.OutOrStdout(), client.PolicyReport{
				SHA256: m.Report.SHA256, Size: m.Report.Size, Memory: m.Report.Memory, CompileMS: m.Report.CompileMS,
				InstantiateUS: m.Report.InstantiateUS, EvaluateNS: m.Report.EvaluateNS, Warnings: m.Report.Warnings,
			})
		},
	}
	o.add(cmd.Flags())
	return cmd
}

// printReport prints what was found of a module.
func printReport(out io.Writer, r client.PolicyReport) error {
	rows := [][]string{
		{"sha256", r.SHA256},
		{"size", strconv.Itoa(r.Size) + " bytes"},
		{"compile", (time.Duration(r.CompileMS) * time.Millisecond).String()},
		{"instantiate", (time.Duration(r.InstantiateUS) * time.Microsecond).String()},
	}
	if r.EvaluateNS > 0 { // it has answered without a configuration
		rows = append(rows, []string{"memory", strconv.Itoa(r.Memory) + " bytes an instance"}, []string{"evaluate", time.Duration(r.EvaluateNS).String()})
	}
	for _, w := range r.Warnings {
		rows = append(rows, []string{"warning", w})
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(out, "%-12s %s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}

// trial are the flags of a request that a policy is asked about.
type trial struct {
	requested, limit, available, waiting int
	attributes                           []string
	config                               configuration
}

func (t *trial) add(flags *pflag.FlagSet) {
	flags.IntVarP(&t.requested, "requested", "n", 1, "permits asked for")
	flags.IntVar(&t.limit, "limit", 100, "of the semaphore")
	flags.IntVar(&t.available, "available", -1, "permits that are free; all of the limit")
	flags.IntVar(&t.waiting, "waiting", 0, "how many wait")
	flags.StringArrayVar(&t.attributes, "attr", nil, "KEY=VALUE of the client; may be given more than once")
	t.config.add(flags)
}

// request is what the flags say.
func (t *trial) request() (*policies.Request, error) {
	if t.requested < 1 || t.limit < 1 || t.available < -1 || t.waiting < 0 {
		return nil, errors.New("--requested and --limit must be 1 or more, --available and --waiting 0 or more")
	}
	r := &policies.Request{
		Semaphore: "trial", Client: "trial", Holder: "trial", ID: "trial", Requested: int64(t.requested), Limit: int64(t.limit),
		Available: int64(t.available), Waiting: int64(t.waiting), Attributes: map[string]string{},
	}
	if t.available < 0 {
		r.Available = r.Limit
	}
	for _, a := range t.attributes {
		key, value, found := strings.Cut(a, "=")
		if !found {
			return nil, fmt.Errorf("--attr %s: KEY=VALUE is needed", a)
		}
		r.Attributes[key] = value
	}
	return r, nil
}

// configuration are the flags of what a policy is told besides the request.
type configuration struct{ text, file string }

func (c *configuration) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.text, "config", "", "configuration of the policy")
	flags.StringVar(&c.file, "config-file", "", "file that has it")
}

// read returns what the flags say; of a file not more than shows that it is too large.
func (c *configuration) read(cmd *cobra.Command) (string, error) {
	switch {
	case c.file == "":
		return c.text, nil
	case c.text != "":
		return "", errors.New("--config and --config-file: one of them")
	}
	in, err := openInput(cmd, c.file)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(in, policies.ConfigMax+1))
	if len(text) > policies.ConfigMax {
		return "", fmt.Errorf("--config-file %s: a configuration has up to %d bytes", c.file, policies.ConfigMax)
	}
	return string(text), err
}

// newPolicyEval asks a module about a request.
func newPolicyEval() *cobra.Command {
	o, t := &offline{}, &trial{}
	cmd := &cobra.Command{
		Use:     "eval FILE",
		Short:   "Ask a module about one request, without a server",
		Example: "  permitd policy eval gold.wasm --attr tier=gold --limit 100 --available 20",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			request, err := t.request()
			if err != nil {
				return err
			}
			config, err := t.config.read(cmd)
			if err != nil {
				return err
			}
			m, err := o.load(cmd, args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, m.Close()) }()
			d, err := m.Evaluate(config, request)
			if err != nil {
				return err
			}
			return o.printDecision(cmd.OutOrStdout(), &d)
		},
	}
	t.add(cmd.Flags())
	o.add(cmd.Flags())
	return cmd
}

// printDecision prints what a module said: the decision first, then what there is to say about it.
func (o *offline) printDecision(out io.Writer, d *policies.Decision) error {
	if o.json {
		return printJSON(out, d.Told())
	}
	lines := []string{string(d.Outcome)}
	if d.Weight > 0 {
		lines[0] += " " + strconv.FormatInt(d.Weight, 10)
	}
	if d.Reason != "" {
		lines = append(lines, "reason   "+d.Reason)
	}
	if d.HasPriority {
		lines = append(lines, "priority "+strconv.Itoa(d.Priority))
	}
	if d.TTL > 0 {
		lines = append(lines, "ttl      "+d.TTL.String())
	}
	if d.Fault != nil {
		lines = append(lines, "fault    "+d.Fault.Error())
	}
	for _, l := range d.Logs {
		lines = append(lines, "log      "+l.Text)
	}
	lines = append(lines, "took     "+d.Elapsed.String())
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// newPolicyPut uploads a module.
func newPolicyPut() *cobra.Command {
	r := &remote{}
	var dry bool
	var sum string
	cmd := &cobra.Command{
		Use:   "put NAME [FILE]",
		Short: "Upload a module and put it to work, or go back to a stored version",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 2) == (sum != "") {
				return errors.New("a file is needed, or --sha256 of a stored version")
			}
			if dry && sum != "" {
				return errors.New("--dry-run needs a file: a stored version was checked when it was uploaded")
			}
			return r.ask(cmd, func(ctx context.Context, c *client.Client) error {
				p, err := putPolicy(ctx, cmd, c, args, sum, dry)
				if err != nil {
					return err
				}
				if r.json {
					return printJSON(cmd.OutOrStdout(), p)
				}
				return printReport(cmd.OutOrStdout(), p.Report)
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only check the module")
	cmd.Flags().StringVar(&sum, "sha256", "", "a stored version to go back to")
	r.add(cmd)
	return cmd
}

func putPolicy(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string, sum string, dry bool) (client.Policy, error) {
	if sum != "" {
		return c.RevertPolicy(ctx, args[0], sum)
	}
	in, err := openInput(cmd, args[1])
	if err != nil {
		return client.Policy{}, &exitError{exitUsage, err}
	}
	defer func() { _ = in.Close() }() // it was only read
	return c.PutPolicy(ctx, args[0], in, 0, dry)
}

// newPolicyList lists policies.
func newPolicyList() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List policies",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.ask(cmd, func(ctx context.Context, c *client.Client) error {
				list, err := c.Policies(ctx)
				if err != nil {
					return err
				}
				if r.json {
					return printJSON(cmd.OutOrStdout(), list)
				}
				rows := make([][]string, len(list))
				for i, p := range list {
					took := "-" // it does not answer without a configuration
					if p.Report.EvaluateNS > 0 {
						took = time.Duration(p.Report.EvaluateNS).String()
					}
					rows[i] = []string{
						p.Name, strconv.FormatInt(p.Rev, 10), p.SHA256[:min(len(p.SHA256), 12)], p.Here, took, strings.Join(p.UsedBy, ","),
					}
				}
				return printTable(cmd.OutOrStdout(), []string{"POLICY", "REV", "SHA256", "HERE", "EVALUATE", "USED BY"}, rows)
			})
		},
	}
	r.add(cmd)
	return cmd
}

// newPolicyBind has a policy weigh the requests for a semaphore.
func newPolicyBind() *cobra.Command {
	cmd := bindCommand("enforce")
	cmd.Use, cmd.Short = "bind SEMAPHORE [POLICY]", "Have a policy weigh the requests for a semaphore"
	return cmd
}

// newPolicyShadow has a policy weigh them without consequences.
func newPolicyShadow() *cobra.Command {
	cmd := bindCommand("shadow")
	cmd.Use, cmd.Short = "shadow SEMAPHORE [POLICY]", "Have a policy weigh the requests for a semaphore, compare, and do nothing"
	return cmd
}

func bindCommand(mode string) *cobra.Command {
	r, config, b := &remote{}, &configuration{}, client.Binding{Mode: mode}
	var none bool
	cmd := &cobra.Command{
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			binding := &b
			switch {
			case none && len(args) == 2:
				return errors.New("--none ends the binding; no policy is needed")
			case none:
				binding = nil
			case len(args) == 2:
				b.Name = args[1]
			}
			text, err := config.read(cmd)
			if err != nil {
				return err
			}
			b.Config = text
			return r.ask(cmd, func(ctx context.Context, c *client.Client) error {
				s, err := c.Bind(ctx, args[0], binding)
				if err != nil {
					return err
				}
				if r.json {
					return printJSON(cmd.OutOrStdout(), s)
				}
				return printBinding(cmd.OutOrStdout(), s)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&b.OnFault, "on-fault", "", "when the policy gives no answer: deny, allow_requested or unavailable")
	flags.StringVar(&b.Timeout, "timeout", "", "of one evaluation, 20ms to 500ms")
	flags.StringVar(&b.Isolation, "isolation", "", "pooled, or fresh: an instance of its own for each request")
	flags.BoolVar(&none, "none", false, "end the binding")
	config.add(flags)
	r.add(cmd)
	return cmd
}

// printBinding prints what a semaphore is bound to.
func printBinding(out io.Writer, s client.Semaphore) error {
	row := []string{s.Name, "-", "-", "-", "-", "-"}
	if b := s.Definition.Policy; b != nil {
		row = []string{s.Name, b.Name, b.Mode, b.OnFault, b.Timeout, b.Isolation}
	}
	return printTable(out, []string{"SEMAPHORE", "POLICY", "MODE", "ON FAULT", "TIMEOUT", "ISOLATION"}, [][]string{row})
}

// newPolicyRemove deletes a policy.
func newPolicyRemove() *cobra.Command {
	d := &decision{}
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a policy that no semaphore is bound to",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !d.yes && !d.agreed(cmd) {
				return &exitError{exitUsage, errors.New("nothing was done; --yes does it")}
			}
			return d.ask(cmd, func(ctx context.Context, c *client.Client) error { return c.DeletePolicy(ctx, args[0]) })
		},
	}
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do it without asking")
	d.remote.add(cmd)
	return cmd
}
