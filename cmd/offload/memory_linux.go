package main

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// spareSpace is the address space that the process takes besides its memory, in bytes: the runtime of
	// Go reserves 64 MiB at a time, and threads have stacks.
	spareSpace = 128 << 20
	// leastAvailable is the minimum that availableMemory returns, in bytes.
	leastAvailable = 16 << 20
)

// availableMemory returns the memory that the process can use, in bytes: the minimum of the
// machine's memory and the limits of control groups and address space. space reports whether it is
// that of the address space.
func availableMemory() (available int64, space bool) {
	available = min(machineMemory(), groupMemory("/proc/self/cgroup", "/sys/fs/cgroup"))
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur >= math.MaxInt64 {
		return available, false
	}
	left := max(int64(limit.Cur)-usedAddresses("/proc/self/statm")-spareSpace, leastAvailable)
	return min(available, left), left < available
}

// usedAddresses returns the address space that the process uses, in bytes, with reservations of the runtime of Go
// and mapped inputs. statm is /proc/self/statm; if it cannot be read, the result is 0.
func usedAddresses(statm string) int64 {
	data, _ := readSmall(statm, make([]byte, 128))
	pages, _, _ := strings.Cut(string(data), " ")
	n, _ := strconv.ParseInt(pages, 10, 64)
	return n * int64(syscall.Getpagesize())
}

// machineMemory returns the memory of the machine in bytes, MaxInt64 if unknown.
func machineMemory() int64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return math.MaxInt64
	}
	return int64(info.Totalram) * int64(max(info.Unit, 1))
}

// readSmall returns the content of a file of at most the length of b, which it reads into. Every
// process reads such files when it starts, and os.ReadFile makes four times as many system calls.
func readSmall(name string, b []byte) ([]byte, error) {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	n := 0
	for n < len(b) {
		k, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || k == 0 {
			return b[:n], err
		}
		n += k
	}
	return b, nil
}

// groupMemory returns the least limit of the control groups that the process is in,
// MaxInt64 for none. self is /proc/self/cgroup, and mount where the groups are mounted.
func groupMemory(self, mount string) int64 {
	groups, err := readSmall(self, make([]byte, 4<<10))
	if err != nil {
		return math.MaxInt64
	}
	var limit [64]byte
	least := int64(math.MaxInt64)
	for line := range bytes.Lines(groups) {
		words := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(words) != 3 {
			continue
		}
		dir, file := mount, "memory.max"
		switch {
		case words[1] == "": // version 2
		case slices.Contains(strings.Split(words[1], ","), "memory"):
			dir, file = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// A container may see its own group as the root, under a path of the host.
		for group := filepath.Clean("/" + words[2]); ; group = filepath.Dir(group) {
			data, err := readSmall(filepath.Join(dir, group, file), limit[:])
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
