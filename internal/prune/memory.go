package prune

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/budget"
)

// What a unit takes besides its bytes, from Open to Close, in bytes: measured with archives of 60,000
// small bundles, with the heap that is free between two collections. Memory is reserved in steps.
const (
	unitMemory       = 3 << 10
	compressedMemory = 2 << 10 // of a compressed unit, in addition
	entryMemory      = 1 << 10
	memoryStep       = 64 << 10
)

// memory is the memory that the units of a file take. A nil *memory reserves nothing.
type memory struct {
	budget *budget.Budget
	steps  []*budget.Reservation
	spare  int64 // reserved, and not used by a unit yet
}

// hold reserves the memory of a unit with its entries.
func (m *memory) hold(ctx context.Context, u *unit) error {
	if m == nil {
		return nil
	}
	need := unitMemory + entryMemory*int64(len(u.entries))
	if u.compressed {
		need += compressedMemory
	}
	if m.spare < need {
		more := max(need-m.spare, memoryStep)
		step, err := m.budget.Reserve(ctx, more)
		if err != nil {
			return err
		}
		m.steps, m.spare = append(m.steps, step), m.spare+more
	}
	m.spare -= need
	return nil
}

// release returns the memory to the budget.
func (m *memory) release() {
	for _, step := range m.steps {
		step.Release()
	}
	m.steps, m.spare = nil, 0
}
