package main

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// runtimeSpace is the address space that the runtime of Go reserves, in bytes.
	runtimeSpace = 700 << 20
	// leastAvailable is the least that availableMemory returns, in bytes.
	leastAvailable = 64 << 20
)

// availableMemory returns the bytes of memory that the process can have: those of the
// machine, its control groups and its limit of address space allow no more.
func availableMemory() int64 {
	available := min(machineMemory("/proc/meminfo"), groupMemory("/proc/self/cgroup", "/sys/fs/cgroup"))
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) == nil && limit.Cur < math.MaxInt64 {
		available = min(available, max(int64(limit.Cur)-runtimeSpace, leastAvailable))
	}
	return available
}

// machineMemory returns the memory of the machine by /proc/meminfo, MaxInt64 if unknown.
func machineMemory(meminfo string) int64 {
	data, _ := os.ReadFile(meminfo)
	for line := range bytes.Lines(data) {
		words := strings.Fields(string(line))
		if len(words) == 3 && words[0] == "MemTotal:" && words[2] == "kB" {
			if n, err := strconv.ParseInt(words[1], 10, 53); err == nil {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}

// groupMemory returns the least limit of the control groups that the process is in,
// MaxInt64 for none. self is /proc/self/cgroup, and mount where the groups are mounted.
func groupMemory(self, mount string) int64 {
	f, err := os.Open(self)
	if err != nil {
		return math.MaxInt64
	}
	defer f.Close()
	least := int64(math.MaxInt64)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.SplitN(lines.Text(), ":", 3)
		if len(words) != 3 {
			continue
		}
		dir, file := mount, "memory.max"
		switch {
		case words[1] == "": // version 2
		case contains(words[1], "memory"):
			dir, file = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// A container may see its own group as the root, under a path of the host.
		for group := filepath.Clean("/" + words[2]); ; group = filepath.Dir(group) {
			data, err := os.ReadFile(filepath.Join(dir, group, file))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && bad == nil && n > 0 {
				least = min(least, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// contains reports whether a list with commas has a word.
func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
