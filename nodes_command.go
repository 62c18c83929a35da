package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/permitd/permitd/server/client"
)

// newNodes tells of the nodes, and has the decisions about them that only a person may take.
func newNodes() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "What the nodes are, what happened to them, and what happens next",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.ask(cmd, func(ctx context.Context, c *client.Client) error {
				nodes, err := c.Nodes(ctx)
				if err != nil {
					return err
				}
				return r.showNodes(cmd, nodes)
			})
		},
	}
	r.add(cmd)
	cmd.AddCommand(newRecover(), newReadmit())
	return cmd
}

// showNodes prints the nodes.
func (r *remote) showNodes(cmd *cobra.Command, nodes client.Nodes) error {
	out := cmd.OutOrStdout()
	if r.json {
		return printJSON(out, nodes)
	}
	votes := 0
	var rows [][]string
	for _, n := range nodes.Items {
		index := "?"
		if n.Index != nil {
			index = strconv.Itoa(*n.Index)
		}
		if n.State == "up" {
			votes++
		}
		since := time.Since(n.Since).Round(time.Second)
		rows = append(rows, []string{
			n.Node, index, n.State, since.String(), strconv.FormatInt(n.Era, 10), (time.Duration(n.ClockOffsetMS) * time.Millisecond).String(),
			strconv.FormatFloat(n.LatencyMS, 'f', 3, 64) + "ms", whyOf(&n),
		})
	}
	if err := printTable(out, []string{"NODE", "INDEX", "STATE", "FOR", "ERA", "CLOCK", "LATENCY", "WHY, AND WHAT NEXT"}, rows); err != nil {
		return err
	}
	if isTerminal(out) {
		fmt.Fprintf(out, "%d of %d vote, %d are needed\n", votes, len(nodes.Items), nodes.Quorum)
	}
	return nil
}

// whyOf is what a table says of a node: why it does not vote, when it grants again, or what else is wrong.
func whyOf(n *client.Node) string {
	why := cmp.Or(n.Reason, n.Warning)
	if left := time.Until(n.GrantingAt); n.Reason == "" && left > 0 {
		why = fmt.Sprintf("a cold start is waited out: it grants nothing for another %v, and longer on semaphores that had longer leases", left.Round(time.Second))
	}
	return strings.Join(strings.Fields(why), " ")
}

// decision is a command that first tells what it gives up, and then asks.
type decision struct {
	remote
	reason string
	yes    bool
}

func (d *decision) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.reason, "reason", "", "why, for those who will ask")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do it without asking")
	d.remote.add(cmd)
}

// newRecover goes on with what the nodes remember that are left.
func newRecover() *cobra.Command {
	d := &decision{}
	var without []string
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Go on without nodes that are lost, when fewer than a quorum vote",
		Long: "Goes on with what the nodes remember that are left, when fewer than a quorum vote and that will not mend itself: nodes are " +
			"lost for good, or too few of them have a full memory. It tells first what that gives up.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.take(cmd, func(ctx context.Context, c *client.Client, dry bool) (client.Decided, error) {
				return c.Recover(ctx, without, d.reason, dry)
			})
		},
	}
	cmd.Flags().StringSliceVar(&without, "without", nil, "nodes that are given up: indexes or names, as permitd nodes tells them")
	d.add(cmd)
	return cmd
}

// newReadmit takes a node back that another list has replaced.
func newReadmit() *cobra.Command {
	d := &decision{}
	cmd := &cobra.Command{
		Use:   "readmit NODE",
		Short: "Take back a node that was replaced by one of another list of nodes",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.take(cmd, func(ctx context.Context, c *client.Client, dry bool) (client.Decided, error) {
				return c.Readmit(ctx, args[0], d.reason, dry)
			})
		},
	}
	d.add(cmd)
	return cmd
}

// take tells what a decision gives up, and has it done if that is what is wanted.
func (d *decision) take(cmd *cobra.Command, do func(ctx context.Context, c *client.Client, dry bool) (client.Decided, error)) error {
	return d.ask(cmd, func(ctx context.Context, c *client.Client) error {
		would, err := do(ctx, c, true)
		if err != nil {
			return err
		}
		said := cmd.ErrOrStderr()
		fmt.Fprintln(said, "This gives up:")
		for _, what := range would.GivesUp {
			fmt.Fprintln(said, "-", what)
		}
		if !d.yes && !d.agreed(cmd) {
			return &exitError{exitUsage, errors.New("nothing was done; --yes does it")}
		}
		done, err := do(ctx, c, false)
		if err != nil {
			return err
		}
		fmt.Fprintln(said, "It is under way; permitd nodes tells how it goes.")
		return d.showNodes(cmd, done.Nodes)
	})
}

// agreed asks on a terminal.
func (d *decision) agreed(cmd *cobra.Command) bool {
	if !isTerminal(cmd.InOrStdin()) {
		return false
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Do it? [y/N] ")
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(answer), "y") || strings.EqualFold(strings.TrimSpace(answer), "yes")
}
