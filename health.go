package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/permitd/permitd/server/client"
)

const (
	urlUsual      = "http://127.0.0.1:7707"
	healthTimeMax = 5 * time.Second
)

// newHealth is for supervisors that can only run a command, such as that of containers.
func newHealth() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "health [URL]",
		Short: "Ask a server whether it is ready; exit with 69 if it is not",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := readEnvironment(cmd); err != nil {
				return err
			}
			if len(args) > 0 {
				url = args[0]
			}
			c, err := client.New(client.Config{URL: url})
			if err != nil {
				return misconfigured("--url: %w", err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeMax)
			defer cancel()
			if err := c.Ready(ctx); err != nil {
				return &exitError{exitUnavailable, err}
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", urlUsual, "of the server")
	describeEnvironment(cmd.Flags())
	return cmd
}
