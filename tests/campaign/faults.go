package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// job is a command line of the program with its outputs.
type job struct {
	args []string
	want map[string][]byte
}

// jobs returns a job for each way to write files.
func (c *campaign) jobs() []job {
	s := c.samples[c.rand.IntN(len(c.samples))]
	unbundle := []string{"unbundle", "--input=" + s.file}
	want := map[string][]byte{}
	for i, target := range s.targets {
		unbundle = append(unbundle, fmt.Sprintf("--entry=%s=new%d", target, i))
		want[fmt.Sprintf("new%d", i)] = s.images[target]
	}
	jobs := []job{{unbundle, want}}
	for _, s := range c.samples {
		switch s.name {
		case "plain", "auto", "one-frame":
			args := []string{"bundle", "--output=new", "--align=4096"}
			if s.name != "plain" {
				args = append(args, "--compress")
			}
			if s.name == "one-frame" {
				args = append(args, "--frames=one")
			}
			for i, target := range s.targets {
				args = append(args, fmt.Sprintf("--entry=%s=%s-%d.co", target, s.name, i))
			}
			jobs = append(jobs, job{args, map[string][]byte{"new": s.data}})
		}
	}
	return jobs
}

// syscalls makes single system calls fail.
func syscalls(ctx context.Context, c *campaign) error {
	calls := map[string][]string{
		"openat":             {"EMFILE", "EACCES", "EIO"},
		"write":              {"ENOSPC", "EIO", "EINTR"},
		"pwrite64":           {"ENOSPC", "EIO", "EINTR"},
		"copy_file_range":    {"ENOSPC", "EIO", "EXDEV", "EINVAL"},
		"mmap":               {"ENOMEM", "ENODEV"},
		"ftruncate":          {"EFBIG", "EIO"},
		"linkat":             {"EXDEV", "EIO", "EPERM"},
		"renameat2,renameat": {"EXDEV", "EINVAL", "EIO"},
		"newfstatat,fstat":   {"EIO"},
		"close":              {"EIO"},
	}
	names := []string{"openat", "write", "pwrite64", "copy_file_range", "mmap", "ftruncate", "linkat", "renameat2,renameat", "newfstatat,fstat", "close"}
	for ctx.Err() == nil {
		call := names[c.rand.IntN(len(names))]
		errno := calls[call][c.rand.IntN(len(calls[call]))]
		when := 1 + c.rand.IntN(12)
		if call == "mmap" {
			when += 30 // the first calls are those of the Go runtime, which must succeed
		}
		jobs := c.jobs()
		j := jobs[c.rand.IntN(len(jobs))]
		args := append([]string{"-f", "-qq", "-o", os.DevNull, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, errno, when), c.program}, j.args...)
		status, text := c.exec(ctx, exec.CommandContext(ctx, "strace", args...))
		if ctx.Err() != nil {
			return nil
		}
		what := fmt.Sprintf("%s fails with %s at call %d: %s", call, errno, when, strings.Join(j.args, " "))
		if strings.HasPrefix(text, "strace: ") {
			return fmt.Errorf("%s", text)
		}
		c.wantOutputs(what, status, j.want)
	}
	return nil
}

// kills ends the program at random moments, with signals that it handles and one that it cannot
// handle.
func kills(ctx context.Context, c *campaign) error {
	longestRun := 50 * time.Millisecond
	for ctx.Err() == nil {
		jobs := c.jobs()
		j := jobs[c.rand.IntN(len(jobs))]
		signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}[c.rand.IntN(3)]
		cmd := exec.Command(c.program, j.args...)
		cmd.Dir = c.dir
		if err := cmd.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(c.rand.Int64N(int64(longestRun))))
		cmd.Process.Signal(signal)
		err := cmd.Wait()
		c.runs.Add(1)
		what := fmt.Sprintf("%s: %s", signal, strings.Join(j.args, " "))
		// An existing output is complete, whether or not the process reported success.
		found := 0
		for name, content := range j.want {
			got, err := os.ReadFile(c.path(name))
			if err != nil {
				continue
			}
			found++
			if string(got) != string(content) {
				c.fault("%s: %s has %d bytes that are not those expected", what, name, len(got))
			}
			os.Remove(c.path(name))
		}
		// A kill between the renames of several outputs leaves the first ones.
		if signal != syscall.SIGKILL && found != 0 && found != len(j.want) {
			c.fault("%s: %d of %d outputs", what, found, len(j.want))
		}
		if err == nil && found != len(j.want) {
			c.fault("%s: exit status 0 and %d of %d outputs", what, found, len(j.want))
		}
		c.wantNothingLeft(what)
	}
	return nil
}

// changes writes to an input while it is bundled. The output has the complete old or new
// content, or does not exist.
func changes(ctx context.Context, c *campaign) error {
	base := make([]byte, 64<<10)
	for i := range base {
		base[i] = byte(c.rand.Uint32())
	}
	const size = 4 << 20
	contents := [2][]byte{c.image(base, size), c.image(base, size)}
	input := c.path("changing")
	for ctx.Err() == nil {
		before, after := contents[0], contents[1]
		if c.rand.IntN(3) == 0 {
			after = before[:c.rand.IntN(size)]
		}
		if err := os.WriteFile(input, before, 0o666); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // the clock of a file system is coarse
		args := []string{"bundle", "--entry=gfx942=changing", "--output=new"}
		if c.rand.IntN(2) == 0 {
			args = append(args, "--compress")
		}
		cmd := exec.CommandContext(ctx, c.program, args...)
		cmd.Dir = c.dir
		if err := cmd.Start(); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		time.Sleep(time.Duration(c.rand.Int64N(int64(30 * time.Millisecond))))
		f, err := os.OpenFile(input, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if len(after) < len(before) {
			err = f.Truncate(int64(len(after)))
		} else {
			_, err = f.WriteAt(after, 0)
		}
		if err == nil {
			// The kernel sets the time at the beginning of a write. A program that opens the file
			// during the write must notice the change.
			now := time.Now().Add(time.Second)
			err = os.Chtimes(input, now, now)
		}
		f.Close()
		if err != nil {
			return err
		}
		status := cmd.Wait()
		c.runs.Add(1)
		if ctx.Err() != nil {
			return nil
		}
		what := fmt.Sprintf("an input that changes to %d bytes: %s", len(after), strings.Join(args, " "))
		if status != nil {
			if _, err := os.Stat(c.path("new")); err == nil {
				c.fault("%s: fails and leaves an output", what)
				os.Remove(c.path("new"))
			}
			c.wantNothingLeft(what)
			continue
		}
		if code, text := c.call(ctx, "unbundle", "--input=new", "--entry=gfx942=again"); code != 0 && ctx.Err() == nil {
			c.fault("%s: exit status 0, and the bundle cannot be read: %s", what, text)
		}
		got, _ := os.ReadFile(c.path("again"))
		if ctx.Err() == nil && string(got) != string(before) && string(got) != string(after) {
			c.fault("%s: exit status 0 and bytes that are neither the old nor the new ones", what)
		}
		os.Remove(c.path("new"))
		os.Remove(c.path("again"))
		c.wantNothingLeft(what)
	}
	return nil
}

// races runs two processes with the same output.
func races(ctx context.Context, c *campaign) error {
	for ctx.Err() == nil {
		jobs := c.jobs()[1:]
		a, b := jobs[c.rand.IntN(len(jobs))], jobs[c.rand.IntN(len(jobs))]
		if c.rand.IntN(2) == 0 { // over an existing file
			if err := os.WriteFile(c.path("new"), []byte("old"), 0o600); err != nil {
				return err
			}
		}
		first := exec.Command(c.program, a.args...)
		first.Dir = c.dir
		if err := first.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(c.rand.Int64N(int64(5 * time.Millisecond))))
		status, text := c.call(ctx, b.args...)
		err := first.Wait()
		c.runs.Add(1)
		if ctx.Err() != nil {
			return nil
		}
		what := fmt.Sprintf("%s beside %s", strings.Join(a.args, " "), strings.Join(b.args, " "))
		if status != 0 || err != nil {
			c.fault("%s: exit status %d, %v: %s", what, status, err, text)
		}
		got, _ := os.ReadFile(c.path("new"))
		if string(got) != string(a.want["new"]) && string(got) != string(b.want["new"]) {
			c.fault("%s: an output of %d bytes that is neither's", what, len(got))
		}
		os.Remove(c.path("new"))
		c.wantNothingLeft(what)
	}
	return nil
}
