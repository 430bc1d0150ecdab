package linkerwrapper

import "github.com/rules-offload/rules_offload/internal/cmd/command"

// environment returns a call with variables.
func environment(variables map[string]string) *command.Call {
	return &command.Call{LookupEnv: func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}}
}
