package launch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/launch/key"
	"github.com/rules-offload/rules_offload/internal/launch/plan"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// planRecords are what drivers printed with -###, by their identity, arguments, directory and environment.
const planRecords = "plans"

// driverVariables are the beginnings of variables that change the jobs of a driver or what they do.
var driverVariables = []string{
	"CPATH=", "C_INCLUDE_PATH=", "CPLUS_INCLUDE_PATH=", "OBJC_INCLUDE_PATH=", "OBJCPLUS_INCLUDE_PATH=", "HIP_", "ROCM_", "CUDA_", "CLANG_", "LLVM_", "CCC_", "COMPILER_PATH=", "LIBRARY_PATH=", "GCC_EXEC_PREFIX=",
	"SDKROOT=", "MACOSX_DEPLOYMENT_TARGET=", "SOURCE_DATE_EPOCH=", "PATH=", "HOME=", "XDG_CONFIG_HOME=", "DEVICE_LIB_PATH=", "HSA_PATH=", "HCC_", "OMPI_", "PWD=", "NO_COLOR=", "TERM=", "LD_LIBRARY_PATH=",
}

// jobVariables are the beginnings of variables that a job reads.
var jobVariables = []string{"CLANG_", "LLVM_", "SOURCE_DATE_EPOCH=", "AMDGPU_", "GLIBC_TUNABLES=", "LC_ALL=", "LANG=", "LC_MESSAGES="}

// foreignVariables make a compiler write or print more, or run other code.
var foreignVariables = []string{
	"CC_PRINT_", "CC_LOG_DIAGNOSTICS", "DEPENDENCIES_OUTPUT=", "SUNPRO_DEPENDENCIES=", "FORCE_CLANG_DIAGNOSTICS_CRASH", "LD_PRELOAD=", "LD_AUDIT=", "CCC_OVERRIDE_OPTIONS=", "LIBCLANG_", "CLANG_CRASH_DIAGNOSTICS_DIR=",
	"LLVM_PROFILE_FILE=", "CLANG_MODULES_", "CLANG_TARGET_",
}

// selected returns the variables of an environment that have one of some beginnings, in order.
func selected(env, prefixes []string) (variables []string) {
	for _, v := range env {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(v, p) }) {
			variables = append(variables, v)
		}
	}
	slices.Sort(variables)
	return variables
}

// jobs returns the jobs of the driver.
func (r *run) jobs(ctx context.Context) (*plan.Compilation, error) {
	args := r.args
	if r.opt.Color && !slices.ContainsFunc(args, func(a string) bool {
		return strings.Contains(a, "color-diagnostics") || strings.Contains(a, "diagnostics-color")
	}) {
		args = append([]string{"-fcolor-diagnostics"}, args...)
	}
	driver, err := r.identify(ctx, r.compiler)
	if err != nil {
		return nil, plan.Reason("the compiler cannot be identified: " + err.Error())
	}
	var h key.Hash
	h.Text("plan", r.compiler, r.opt.Dir)
	h.Text(string(driver.id[:]))
	h.Text(args...)
	h.Text("environment")
	h.Text(selected(r.opt.Env, driverVariables)...)
	record := r.record(planRecords, h.Key())
	if probed, printed, ok := strings.Cut(string(record), "\x00"); ok && !driver.script && probes(strings.Split(probed, "\n")) == probed {
		return plan.Parse(printed)
	}
	var printed bytes.Buffer
	list := process.Command{Args: append([]string{r.compiler, "-###"}, args...), Env: r.opt.Env, Dir: r.opt.Dir, Stderr: &printed}
	if err := list.Run(ctx); err != nil {
		if context.Cause(ctx) != nil {
			return nil, context.Cause(ctx)
		}
		return nil, plan.Reason("the compiler rejects the command")
	}
	c, err := plan.Parse(printed.String())
	if err != nil {
		return nil, err
	}
	if r.listingRepeats(ctx, driver, c) {
		if names, ok := probeNames(c, r.compiler, args, r.opt.Env); ok {
			r.putRecord(planRecords, h.Key(), []byte(probes(names)+"\x00"+printed.String()))
		}
	}
	return c, nil
}

// listingRepeats reports whether the driver lists the same jobs if it and the files that probeNames returns are the same: it is
// clang itself, and does not ask the machine for its GPUs or processor.
func (r *run) listingRepeats(ctx context.Context, driver *program, c *plan.Compilation) bool {
	if driver.script || slices.ContainsFunc(r.args, func(a string) bool { return strings.Contains(a, "native") || strings.HasPrefix(a, "@") }) {
		return false
	}
	for _, job := range c.Jobs {
		if job.Kind == plan.Compile {
			compiler, err := r.identify(ctx, job.Args[0])
			return err == nil && compiler.path == driver.path
		}
	}
	return false
}

// probeNames returns the files and directories whose change can change the jobs of a driver: those in which it finds GCC,
// ROCm, CUDA, its own files and configuration files, and precompiled headers beside those of -include. ok is false if they are
// not known.
func probeNames(c *plan.Compilation, compiler string, args, env []string) (names []string, ok bool) {
	add := func(name string) {
		if filepath.IsAbs(name) && !slices.Contains(names, name) && !strings.ContainsAny(name, "\n\t\x00") {
			names = append(names, name)
		}
	}
	for _, name := range []string{"/opt", "/opt/rocm", "/opt/rocm/lib", "/usr/lib", "/usr/lib/gcc", "/usr/lib/gcc-cross", "/usr/local", "/usr/local/cuda", "/usr/local/lib", "/etc/clang", "/usr", "/usr/include", "/usr/include/c++", "/etc/gentoo-release", "/etc/lsb-release", "/etc/debian_version", "/etc/redhat-release"} {
		add(name)
	}
	if home := variable(env, "HOME"); home != "" {
		add(filepath.Join(home, ".config"))
		add(filepath.Join(home, ".llvm"))
	}
	for _, v := range []string{"ROCM_PATH", "HIP_PATH", "HIP_DEVICE_LIB_PATH", "CUDA_PATH"} {
		if dir := variable(env, v); dir != "" {
			add(dir)
			add(filepath.Join(dir, "lib"))
			add(filepath.Join(dir, "share/hip/version"))
		}
	}
	add(filepath.Dir(compiler))
	if real, err := filepath.EvalSymlinks(compiler); err == nil {
		add(filepath.Dir(real))
	}
	for _, config := range c.Configs {
		data, err := os.ReadFile(config)
		if err != nil || bytes.ContainsAny(data, "@") || bytes.Contains(data, []byte("--config")) || bytes.Contains(data, []byte("native")) {
			return nil, false
		}
		add(config)
	}
	// The directories above those that the driver found, as it names them.
	above := func(dir string) {
		for range 4 {
			add(dir)
			if up := strings.LastIndexByte(dir, '/'); up > 0 {
				dir = dir[:up]
			}
		}
	}
	for _, job := range c.Jobs {
		for i, word := range job.Args[:len(job.Args)-1] {
			switch word {
			case "-internal-isystem", "-internal-externc-isystem", "-resource-dir":
				above(job.Args[i+1])
			case "-mlink-builtin-bitcode":
				above(filepath.Dir(job.Args[i+1]))
			}
		}
		add(job.Args[0])
	}
	for i, arg := range args {
		if arg == "-include" && i+1 < len(args) {
			name, err := filepath.Abs(args[i+1])
			if err != nil {
				return nil, false
			}
			add(name + ".gch")
			add(name + ".pch")
		}
		if dir, ok := strings.CutPrefix(arg, "--rocm-path="); ok {
			if dir, err := filepath.Abs(dir); err == nil {
				add(dir)
				add(filepath.Join(dir, "lib"))
				add(filepath.Join(dir, "amdgcn/bitcode"))
				add(filepath.Join(dir, "share/hip/version"))
			}
		}
	}
	return names, true
}

// probes returns the names with their states, one per line. It accepts what it returns.
func probes(names []string) string {
	lines := make([]string, len(names))
	for i, name := range names {
		name, _, _ = strings.Cut(name, "\t")
		state, err := signature(name)
		if errors.Is(err, os.ErrNotExist) {
			state = "missing"
		} else if err != nil {
			state = "unknown"
		}
		lines[i] = name + "\t" + state
	}
	return strings.Join(lines, "\n")
}
