package link

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rules-offload/rules_offload/internal/process"
)

// link runs the device links.
func (w *linker) link(ctx context.Context) error {
	if w.DryRun {
		for _, command := range w.commands {
			w.print(command)
		}
		return nil
	}
	out := &ordered{w: w.Stderr, messages: make([]bytes.Buffer, len(w.commands)), ended: make([]bool, len(w.commands))}
	start := func(i int) {
		out.mu.Lock()
		defer out.mu.Unlock()
		w.print(w.commands[i])
	}
	err := process.Jobs(ctx, w.Slots, len(w.commands), start, func(ctx context.Context, i int) error {
		defer w.Phase("Link device input", w.links[i].Name())()
		defer out.end(i)
		return w.linkOne(ctx, i, &out.messages[i])
	})
	if err == nil {
		err = out.err
	}
	return err
}

// linkOne runs one device link, or takes its result from the cache. What it prints goes to
// messages.
func (w *linker) linkOne(ctx context.Context, i int, messages *bytes.Buffer) error {
	program := process.Command{Args: w.commands[i], Env: w.Env, Dir: w.files.Dir(), Stdout: messages, Stderr: messages, Responses: w.Temp}
	var err error
	if w.Cache != nil && !w.SaveTemps {
		err = w.Cache.Run(ctx, program, w.staged[i], w.linked[i], messages)
	} else {
		err = program.Run(ctx)
	}
	if err != nil {
		return err
	}
	if info, err := w.files.Stat(w.linked[i]); err != nil || info.Size() == 0 {
		return &Error{NoImage, program.Args[0], fmt.Errorf("the device link for %s succeeded but wrote no image", w.links[i].Name())}
	}
	return nil
}

// ordered writes the output of concurrent jobs, each in one piece, in the order
// in which the jobs started.
type ordered struct {
	mu       sync.Mutex
	w        io.Writer
	err      error
	messages []bytes.Buffer
	ended    []bool
	next     int // the first job whose output is not written
}

// end writes the output of a job after the output of all earlier jobs.
func (o *ordered) end(i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.ended[i] = true; o.next < len(o.ended) && o.ended[o.next]; o.next++ {
		if _, err := o.messages[o.next].WriteTo(o.w); o.err == nil {
			o.err = err
		}
	}
}
