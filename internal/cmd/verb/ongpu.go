package verb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/gpus"
)

// gpusVariable is the number of GPUs of a test, which hip_test sets.
const gpusVariable = "OFFLOAD_GPUS"

var onGPUVerb = verb{
	name:    "on-gpu",
	operand: " -- PROGRAM [ARGUMENT]...",
	summary: "Runs a program with GPUs that no other such program uses.",
	details: "Waits until enough GPUs of this machine are free, locks them until the program and the processes that it starts end, and sets ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES, for NVIDIA's GPUs CUDA_VISIBLE_DEVICES, so that the program sees only these. " +
		"If these variables are set, it selects from the GPUs that they name. A lock is the device file of the GPU, or with --lock-dir a file in a directory.",
	examples: []example{
		{"Run a program on a GPU that is free", "offload on-gpu -- ./solver --quick"},
		{"Run on two of eight GPUs, with locks in a directory", "offload on-gpu --count=2 --gpus=8 --lock-dir=/var/lock/gpus -- ./solver"},
	},
	flags: func(flags *flagSet) runner {
		var command []string
		flags.operands(&command, "no program: expected it and its arguments after --")
		count := flags.Int("count", 0, "the `NUMBER` of GPUs for the program (default: the variable "+gpusVariable+", or 1)")
		number := flags.Int("gpus", 0, "the `NUMBER` of GPUs of this machine, instead of those that its drivers list. Requires --lock-dir.")
		var dir string
		flags.directory(&dir, "lock-dir", "", "the `directory` for locks, which all programs of the machine share. Requires --gpus.")
		vendor := flags.String("vendor", string(gpus.AMD), "the `VENDOR` of the GPUs with --gpus: amd or nvidia")
		flags.complete("vendor", string(gpus.AMD), string(gpus.NVIDIA))
		flags.check(func([]string) error {
			if (*number > 0) != (dir != "") {
				return usageError("--gpus and --lock-dir: found one of them, expected both or neither")
			}
			if *vendor != string(gpus.AMD) && *vendor != string(gpus.NVIDIA) {
				return usageError(fmt.Sprintf("--vendor is %q, expected amd or nvidia", *vendor))
			}
			return nil
		})
		return func(call *invocation) error {
			if call.Worker {
				return errors.New("on-gpu: cannot run as a worker request: the process becomes the program")
			}
			needed, err := neededGPUs(*count)
			if err != nil {
				return err
			}
			of, all := gpus.Vendor(*vendor), gpus.Pretend(*number, dir)
			if *number == 0 {
				if of, all, err = gpus.Find("/"); err != nil {
					return err
				}
			}
			if all, err = gpus.Visible(of, all, os.Environ()); err != nil {
				return err
			}
			program, err := exec.LookPath(command[0])
			if err != nil {
				return err
			}
			taken, err := gpus.Take(call.ctx, all, needed)
			if err != nil {
				return err
			}
			names := make([]string, len(taken))
			for i, gpu := range taken {
				names[i] = gpu.Name
			}
			fmt.Fprintf(call.Stderr, "offload on-gpu: %s GPU %s of %d\n", of, printable.Text(strings.Join(names, ",")), len(all))
			return gpus.Become(program, command, gpus.Environment(of, taken, os.Environ()))
		}
	},
}

// neededGPUs returns the number of GPUs for a program: a flag, or else the variable, or else 1.
func neededGPUs(flag int) (int, error) {
	value := os.Getenv(gpusVariable)
	if flag > 0 || value == "" {
		return max(flag, 1), nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q, expected a number of GPUs", gpusVariable, value)
	}
	return n, nil
}
