package engine

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/files"
)

// DiffOptions are the options of Diff: the files and directories to compare, and
// the limits.
type DiffOptions struct {
	Old, New []string
	Limits   kernels.Limits
}

// Diff compares the kernels and device images of two builds. Exceeded limits are
// part of the result, not an error.
func (s *Session) Diff(ctx context.Context, opt DiffOptions) (*kernels.Diff, error) {
	old, err := s.KernelsIn(ctx, opt.Old, InspectOptions{})
	if err != nil {
		return nil, err
	}
	new, err := s.KernelsIn(ctx, opt.New, InspectOptions{})
	if err != nil {
		return nil, err
	}
	d := kernels.Compare(ImagesOf(old), ImagesOf(new))
	opt.Limits.Check(d)
	return d, nil
}

// KernelsIn is Kernels for files and directories, with the hashes of images; the
// Input of opt is ignored. In a directory, files without device code are skipped; a directory without any device
// code is an error.
func (s *Session) KernelsIn(ctx context.Context, inputs []string, opt InspectOptions) ([]*DeviceFile, error) {
	var all []*DeviceFile
	for _, input := range inputs {
		names, isDir, err := s.filesIn(ctx, input)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, name := range names {
			opt.Input, opt.Hash = name, true
			file, err := s.Kernels(ctx, opt)
			if err != nil {
				return nil, err
			}
			if len(file.Found) > 0 || !isDir {
				all = append(all, file)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s: no file with device code in the directory or its subdirectories", input)
		}
	}
	return all, nil
}

// filesIn returns the files of an input that is a directory, or the input.
func (s *Session) filesIn(ctx context.Context, input string) (names []string, isDir bool, err error) {
	folders, isDir, err := s.tree(ctx, input)
	if err != nil || !isDir {
		return []string{input}, false, err
	}
	for _, folder := range folders {
		names = append(names, folder.Files...)
	}
	return names, true, nil
}

// tree returns the directories of an input that is a directory.
func (s *Session) tree(ctx context.Context, input string) (folders []files.Folder, isDir bool, err error) {
	if input == "-" {
		return nil, false, nil
	}
	return s.files.Tree(ctx, input)
}

// ImagesOf returns the images of all files.
func ImagesOf(files []*DeviceFile) []kernels.Image {
	var all []kernels.Image
	for _, f := range files {
		all = append(all, f.Images...)
	}
	return all
}
