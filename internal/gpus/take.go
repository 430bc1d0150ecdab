package gpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The time between attempts to lock GPUs. It is random, so that processes that wait for several GPUs do not always meet.
const (
	shortestWait = 20 * time.Millisecond
	longestWait  = 100 * time.Millisecond
)

// Take locks n of the GPUs, and waits until so many are free. The locks belong to open files, which programs that the process starts
// or becomes inherit; they end with the last of these processes.
func Take(ctx context.Context, all []GPU, n int) ([]GPU, error) {
	if n < 1 || n > len(all) {
		return nil, fmt.Errorf("%d GPUs are needed, and there are %d", n, len(all))
	}
	for {
		taken, files, err := try(all, n)
		if err != nil || len(taken) == n {
			return taken, err
		}
		// Another process may hold what is missing, and wait for these.
		for _, file := range files {
			unix.Close(file)
		}
		wait := shortestWait + rand.N(longestWait-shortestWait)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// try locks up to n GPUs that are free. On an error, it locks none.
func try(all []GPU, n int) (taken []GPU, files []int, err error) {
	defer func() {
		if err != nil {
			for _, file := range files {
				unix.Close(file)
			}
		}
	}()
	for _, gpu := range all {
		if len(taken) == n {
			break
		}
		file, err := open(gpu.Lock)
		if err != nil {
			return nil, files, err
		}
		switch err := lock(file); {
		case err == nil:
			taken, files = append(taken, gpu), append(files, file)
		case errors.Is(err, unix.EWOULDBLOCK):
			unix.Close(file)
		default:
			unix.Close(file)
			return nil, files, &fs.PathError{Op: "flock", Path: gpu.Lock, Err: err}
		}
	}
	return taken, files, nil
}

// open opens a file to lock, which it creates if need be. In a sandbox, the file can be readable only.
func open(name string) (int, error) {
	file, err := openFile(name, unix.O_RDWR|unix.O_CREAT)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		file, err = openFile(name, unix.O_RDONLY)
	}
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return file, nil
}

// openFile opens a file that other programs inherit: without O_CLOEXEC.
func openFile(name string, flags int) (int, error) {
	for {
		file, err := unix.Open(name, flags, 0o666)
		if !errors.Is(err, unix.EINTR) {
			return file, err
		}
	}
}

func lock(file int) error {
	for {
		if err := unix.Flock(file, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Become replaces the process by a program. It returns only if that fails.
func Become(program string, args, environ []string) error {
	return &os.PathError{Op: "exec", Path: program, Err: unix.Exec(program, args, environ)}
}
