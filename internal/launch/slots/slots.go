// Package slots limits the jobs of all processes of a user on a machine: their number, and the memory that they are known to
// require. A process that is killed frees what it holds.
package slots

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/link/process"
)

// Machine are the slots of a machine.
type Machine struct {
	// Dir is a directory for the files of slots, on a local file system. All processes that share the limit have
	// the same. It is created if it is missing.
	Dir string
	// Jobs is the number of jobs that run at a time. If Server is not nil, it limits the number
	// instead.
	Jobs   int
	Server process.Slots
	// Memory is the memory that jobs can use, in bytes. A job that requires more runs alone.
	Memory int64
}

// maxJobs is the largest number of jobs with files.
const maxJobs = 4096

// Times between two attempts to get a slot.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = 100 * time.Millisecond
)

// Acquire waits for a slot for a job that requires memory, in bytes, and returns the function that
// releases it. If ctx is done before, it returns the cause.
func (m *Machine) Acquire(ctx context.Context, memory int64) (release func(), err error) {
	free := func() {}
	jobs := min(max(m.Jobs, 1), maxJobs)
	if m.Server != nil {
		if free, err = m.Server.Acquire(ctx); err != nil {
			return nil, err
		}
		jobs = maxJobs
	}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		slot, err := m.take(jobs, memory)
		if err != nil {
			free()
			return nil, err
		}
		if slot != nil {
			return func() {
				slot.Close() // which unlocks it
				free()
			}, nil
		}
		select {
		case <-ctx.Done():
			free()
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// take locks the file of a free slot and writes the memory of its job to it. It returns nil if all slots are taken, or the
// memory is.
func (m *Machine) take(jobs int, memory int64) (slot *os.File, err error) {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return nil, err
	}
	if !private(m.Dir) {
		return nil, fmt.Errorf("%s: expected a directory that only this user can write", m.Dir)
	}
	lock, err := os.OpenFile(filepath.Join(m.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := lockFile(lock, true); err != nil {
		return nil, fmt.Errorf("%s: %w", lock.Name(), err)
	}
	var running int
	var used int64
	for i := 0; ; i++ {
		name := filepath.Join(m.Dir, strconv.Itoa(i))
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if os.IsNotExist(err) {
			if slot == nil && i < jobs {
				if slot, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
					return nil, err
				}
				if err := lockFile(slot, false); err != nil {
					slot.Close()
					return nil, err
				}
			}
			break
		}
		if err != nil {
			return nil, err
		}
		switch {
		case lockFile(f, false) != nil:
			running++
			used += claim(f)
			f.Close()
		case slot == nil && i < jobs:
			slot = f
		default:
			f.Close()
		}
	}
	if slot == nil || running >= jobs || running > 0 && m.Memory > 0 && used+memory > m.Memory {
		if slot != nil {
			slot.Close()
		}
		return nil, nil
	}
	text := fmt.Sprintf("%d\n", memory)
	if _, err := slot.WriteAt([]byte(text), 0); err != nil {
		slot.Close()
		return nil, err
	}
	if err := slot.Truncate(int64(len(text))); err != nil {
		slot.Close()
		return nil, err
	}
	return slot, nil
}

// claim returns the memory in the file of a slot.
func claim(f *os.File) int64 {
	data := make([]byte, 32)
	n, _ := f.ReadAt(data, 0)
	memory, err := strconv.ParseInt(strings.TrimSpace(string(data[:n])), 10, 64)
	if err != nil {
		return 0
	}
	return memory
}
