package link

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rules-offload/rules_offload/internal/link/process"
)

// link runs the device links.
func (w *linker) link(ctx context.Context) error {
	links := w.plan.Links
	if w.DryRun {
		for i := range links {
			w.Observer.Command(links[i].Command)
		}
		return nil
	}
	out := &ordered{w: w.Stderr, messages: make([]bytes.Buffer, len(links)), ended: make([]bool, len(links))}
	start := func(i int) {
		out.mu.Lock()
		defer out.mu.Unlock()
		w.Observer.Command(links[i].Command)
	}
	err := process.Jobs(ctx, w.Slots, len(links), start, func(ctx context.Context, i int) error {
		defer w.Observer.Phase("Link device input", links[i].Name())()
		defer out.end(i)
		err := w.linkOne(ctx, &links[i], &out.messages[i])
		if err != nil && w.Policy.Failed != nil {
			err = w.Policy.Failed(&links[i], &out.messages[i], err)
		}
		return err
	})
	if err == nil {
		err = out.err
	}
	return err
}

// linkOne runs one device link, or takes its result from the cache. What it prints goes to
// messages.
func (w *linker) linkOne(ctx context.Context, link *Link, messages *bytes.Buffer) error {
	program := w.program(link.Command, messages, messages)
	program.Responses = w.Temp
	var err error
	if w.Cache != nil && !w.SaveTemps {
		err = w.Cache.Run(ctx, program, link.Files, link.Output, messages)
	} else {
		err = program.Run(ctx)
	}
	if err != nil {
		return err
	}
	if info, err := w.files.Stat(w.path(link.Output)); err != nil || info.Size() == 0 {
		return &Error{NoImage, program.Args[0], fmt.Errorf("the device link for %s succeeded but wrote no image", link.Name())}
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
