package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// leastProgram is the size of files from which on starting xz pays, in bytes.
	leastProgram = 1 << 20
	// programMemory is the memory of xz in addition to its dictionary, in bytes, and threadMemory that of
	// a thread, which decodes a block: xz makes blocks of 24 MiB by default. For larger blocks, it uses fewer
	// threads.
	programMemory = 16 << 20
	threadMemory  = 64 << 20
	// maxThreads is the largest number of threads: this program does not read faster.
	maxThreads = 8
)

// xzProgram reads what the program xz writes. It decodes several blocks in parallel, and each of them in
// less than half of the time of package lzma.
type xzProgram struct {
	out    io.ReadCloser
	cmd    *exec.Cmd
	ctx    context.Context
	cancel context.CancelFunc
	fed    chan error // receives the error of reading the file
	errors bytes.Buffer
	end    error // of the program, once it is known
}

// startXZ starts the program for the file of which x has read the start. It returns nil if the budget does
// not have the memory for it, or if it cannot be started.
func startXZ(ctx context.Context, program string, c content.Content, x *xzReader, b *budget.Budget) (*xzProgram, *budget.Reservation) {
	threads := min(b.Cores(), maxThreads)
	need := x.dictionary + programMemory + int64(threads)*threadMemory
	if need > b.Memory()/2 {
		return nil, nil
	}
	memory, err := b.Reserve(ctx, need)
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &xzProgram{ctx: ctx, cancel: cancel, fed: make(chan error, 1)}
	p.cmd = exec.CommandContext(ctx, program, "--decompress", "--stdout", "--format=xz", fmt.Sprintf("--threads=%d", threads),
		fmt.Sprintf("--memlimit-decompress=%d", need))
	p.cmd.Env = []string{"LC_ALL=C"} // and no XZ_OPT
	p.cmd.Stderr = &p.errors
	in, err := p.cmd.StdinPipe()
	if err == nil {
		p.out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		memory.Release()
		return nil, nil
	}
	go func() {
		p.fed <- guard.Contain(func() error {
			_, _ = in.Write(c.Mapped(guard.Inside)) // xz says why it stopped
			return in.Close()
		})
	}()
	return p, memory
}

// Read implements io.Reader.
func (p *xzProgram) Read(data []byte) (int, error) {
	if p.end != nil {
		return 0, p.end
	}
	n, err := p.out.Read(data)
	if errors.Is(err, io.EOF) {
		p.end = p.wait()
		err = p.end
	}
	return n, err
}

// wait waits for the program and returns io.EOF if the file is complete.
func (p *xzProgram) wait() error {
	err := <-p.fed
	exit := p.cmd.Wait()
	if lost, ok := errors.AsType[*guard.LostError](err); ok {
		return lost
	}
	switch text := p.errors.String(); {
	case exit == nil:
		return io.EOF
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	case strings.Contains(text, "Unexpected end of input"):
		return io.ErrUnexpectedEOF
	case strings.Contains(text, "Memory usage limit"):
		return errors.New("a block has a larger dictionary than the first one")
	}
	return errXZ
}

// close ends the program.
func (p *xzProgram) close() {
	p.cancel()
	if p.end == nil {
		p.end = p.wait()
	}
}
