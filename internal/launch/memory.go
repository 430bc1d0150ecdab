package launch

import (
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/launch/key"
)

// memoryRecords are the memory that steps required, so that no more of them run at a time than the machine has memory for.
const memoryRecords = "memory"

// smallStep is the memory up to which a step has no record, in bytes: a machine has that for each of its cores.
const smallStep = 1 << 30

// memoryKey returns the key of the record of a step: that of its output and target, so that the record of an earlier
// version of the source applies.
func (r *run) memoryKey(s *step) [32]byte {
	var h key.Hash
	h.Text("memory", r.opt.Dir, r.plan.Jobs[len(r.plan.Jobs)-1].Output, s.report.Target)
	return h.Key()
}

// memoryOf returns the memory that a step required when it ran last, in bytes, or that of a small step.
func (r *run) memoryOf(k [32]byte) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(string(r.record(memoryRecords, k))), 10, 64)
	if err != nil {
		return smallStep
	}
	return max(n, 0)
}

// keepMemory records the memory of a step.
func (r *run) keepMemory(k [32]byte, used int64) {
	if used < smallStep && r.memoryOf(k) == smallStep {
		return
	}
	r.putRecord(memoryRecords, k, []byte(strconv.FormatInt(used, 10)))
}
