package prune

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/elfedit"
)

func (w *Work) openOpenMP(f *elfedit.File) (func() (elfedit.Change, error), error) { return nil, nil }
func (w *Work) openObject(ctx context.Context) error                               { return errUnsupported }
func (w *Work) openArchive(ctx context.Context) error                              { return errUnsupported }
func (w *Work) openPackages() error                                                { return errUnsupported }
func (w *Work) openBundles(ctx context.Context) error                              { return errUnsupported }
