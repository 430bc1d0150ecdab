// Package session gives packages of this module what an engine.Session does not export: operations outside
// of package engine, such as device links and checks of packages, open inputs and write transactions of
// outputs in the same root, and share its budget. Package engine sets the variables.
package session

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/files"
)

// Files returns the files of an *engine.Session.
var Files func(session any) *files.Root

// Budget returns the budget of an *engine.Session.
var Budget func(session any) *budget.Budget

// SetBudget gives an *engine.Session another budget.
var SetBudget func(session any, b *budget.Budget)

// Describe returns the device images in an open file, and their descriptions with kernels in the same
// order. Names are not demangled.
var Describe func(ctx context.Context, session any, f *images.File) ([]*images.DeviceImage, []kernels.Image, error)
