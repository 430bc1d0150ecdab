package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rules-offload/rules_offload/internal/linkcache"
	"github.com/rules-offload/rules_offload/internal/process"
)

// link runs the device links.
func (w *wrapLink) link(ctx context.Context) error {
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
func (w *wrapLink) linkOne(ctx context.Context, i int, messages *bytes.Buffer) error {
	program := process.Command{Args: w.commands[i], Env: w.Env, Dir: w.session.files.Dir(), Stdout: messages, Stderr: messages, Responses: w.Temp}
	linked, err := w.session.files.Abs(w.linked[i])
	if err != nil {
		return err
	}
	key, cached := linkcache.Key{}, false
	if w.Cache != nil && !w.SaveTemps {
		if key, cached, err = linkcache.LinkKey(ctx, program, w.staged[i], w.linked[i]); err != nil {
			return err
		}
	}
	if cached {
		printed, found, err := w.Cache.Get(key, linked)
		if found {
			messages.Write(printed)
			return nil
		}
		if err != nil {
			fmt.Fprintf(messages, "warning: %s: %v\n", w.Cache.Name, err)
		}
	}
	if err := program.Run(ctx); err != nil {
		return err
	}
	if info, err := w.session.files.Stat(w.linked[i]); err != nil || info.Size() == 0 {
		return &WrapError{WrapDeviceLink, program.Args[0], fmt.Errorf("the device link for %s succeeded but wrote no image", w.links[i].Name())}
	}
	if cached {
		if err := w.Cache.Put(key, linked, messages.Bytes()); err != nil {
			fmt.Fprintf(messages, "warning: %s: %v\n", w.Cache.Name, err)
		}
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
