package linkerwrapper

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"
)

// trace records the phases of a call in the format of Chrome's trace viewer.
type trace struct {
	begin       time.Time
	granularity time.Duration

	mu     sync.Mutex
	events []event
	lanes  []bool // in use: phases that overlap appear in different lanes
}

// event is a phase. Times are in microseconds.
type event struct {
	Process  int               `json:"pid"`
	Thread   int               `json:"tid"`
	Start    int64             `json:"ts"`
	Phase    string            `json:"ph"`
	Duration int64             `json:"dur"`
	Name     string            `json:"name"`
	Args     map[string]string `json:"args,omitempty"`
}

func newTrace(microseconds int) *trace {
	return &trace{begin: time.Now(), granularity: time.Duration(microseconds) * time.Microsecond}
}

// start begins a phase and returns the function that ends it.
func (t *trace) start(name, detail string) func() {
	start := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	lane := slices.Index(t.lanes, false)
	if lane < 0 {
		lane = len(t.lanes)
		t.lanes = append(t.lanes, true)
	}
	t.lanes[lane] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lanes[lane] = false
		took := time.Since(start)
		if took < t.granularity {
			return
		}
		e := event{Process: os.Getpid(), Thread: os.Getpid() + lane, Start: start.Sub(t.begin).Microseconds(), Phase: "X", Duration: took.Microseconds(), Name: name}
		if detail != "" {
			e.Args = map[string]string{"detail": detail}
		}
		t.events = append(t.events, e)
	}
}

// write writes the phases to a file.
func (t *trace) write(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.events, func(a, b event) int { return cmp.Compare(a.Start, b.Start) })
	data, err := json.Marshal(map[string]any{"traceEvents": t.events, "beginningOfTime": t.begin.UnixMicro()})
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o666)
}
