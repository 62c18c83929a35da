package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environmentName is the twin of a flag: PERMITD_NODE_TIMEOUT of --node-timeout.
func environmentName(flag string) string {
	return "PERMITD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// describeEnvironment names the twins in the help of a command.
func describeEnvironment(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { f.Usage += " ($" + environmentName(f.Name) + ")" })
}

// readEnvironment sets the flags that were not given from the environment.
func readEnvironment(cmd *cobra.Command) error {
	var wrong error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, given := os.LookupEnv(environmentName(f.Name))
		if f.Changed || !given || f.Name == "help" || f.Name == "version" || wrong != nil {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			wrong = fmt.Errorf("%s: %w", environmentName(f.Name), err)
		}
	})
	return wrong
}
