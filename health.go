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
		Use:   "health",
		Short: "Ask a server whether it is ready; exit with 69 if it is not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := readEnvironment(cmd); err != nil {
				return err
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
