package verb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/rules-offload/rules_offload/internal/cmd/compilation"
	"github.com/rules-offload/rules_offload/internal/cmd/launcher"
)

var launchVerb = verb{
	name:    "launch",
	operand: " COMPILER [ARG...]",
	summary: "Compiles a source with a cached result for each GPU and for the host.",
	details: "It runs the jobs that the compiler, a clang, would run, and leaves the same files. The result of each job is stored in a cache: if one GPU is added, only its code is compiled. A command that does not compile one source, or whose effect is not understood, runs as it is. Messages and exit codes are those of the compiler.\n\n" +
		"The name of the compilation unit (CUID) does not depend on the GPUs, as the compiler's does. Set -cuid= to choose it.",
	examples: []example{
		{"Compile with CMake's launcher for HIP: cmake -DCMAKE_HIP_COMPILER_LAUNCHER=\"offload;launch\"", "offload launch clang++ -x hip --offload-arch=gfx942 -c -o a.o a.hip"},
	},
	command: true,
	flags: func(flags *flagSet) runner {
		var opt launcher.Options
		flags.BoolVar(&opt.ShowKey, "show-key", false, "print the key of each step, whether it was in the cache, and its target")
		flags.BoolVar(&opt.Explain, "explain", false, "print why steps were not in the cache, or why the command runs as it is")
		flags.operands(&opt.Command, "no compiler: expected a compiler and its arguments")
		return func(call *invocation) error {
			if call.Worker {
				return errors.New("launch: a worker cannot run a compiler; start offload for each compilation")
			}
			opt.Stdout, opt.Stderr, opt.Memory = call.Stdout, call.Stderr, call.Memory()
			done, command, env, err := launcher.Run(call.ctx, opt)
			if err != nil || done {
				return err
			}
			return become(command, env)
		}
	},
}

// become runs a command in place of this process, where the system can do that.
func become(command, env []string) error {
	path, err := launcher.Find(command[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, command, env); !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &compilation.ExitError{Code: exit.ExitCode()}
	}
	return err
}
