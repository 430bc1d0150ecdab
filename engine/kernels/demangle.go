package kernels

import (
	"context"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/rules-offload/rules_offload/engine/budget"
)

// Limits of demangling, for names crafted to waste time: a mangled name can
// have a far longer demangled form.
const (
	maxMangled       = 8 << 10 // bytes; the time grows with the square
	maxQualifiers    = 128     // consecutive qualifiers, such as pointers to pointers
	maxDemangledPow2 = 16      // 64 KiB
)

// Demangle returns the source form of a C++ or Rust symbol, in the style of
// LLVM. Names that are not mangled or are too long are returned unchanged.
func Demangle(name string) (demangled string) {
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") || len(name) > maxMangled || qualifiers(name) > maxQualifiers {
		return name
	}
	defer func() {
		if recover() != nil { // the demangler does not support the name
			demangled = name
		}
	}()
	s, err := demangle.ToString(name, demangle.LLVMStyle, demangle.MaxLength(maxDemangledPow2))
	if err != nil || len(s) >= 1<<maxDemangledPow2 {
		return name
	}
	return s
}

// qualifiers returns the length of the longest sequence of letters for pointers,
// references, functions and qualifiers in a mangled name.
func qualifiers(name string) (longest int) {
	run := 0
	for i := range len(name) {
		run++
		if strings.IndexByte("PROKVrFA_", name[i]) < 0 {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// DemangleAll sets Demangled in the kernels of images. Names in several images,
// such as those of a bundle, are demangled once.
func DemangleAll(ctx context.Context, budget *budget.Budget, images []Image) error {
	index := make(map[string]int)
	var names []string
	var at []int // indices of the kernels' names in names
	for i := range images {
		for k := range images[i].Kernels {
			name := images[i].Kernels[k].Name
			n, ok := index[name]
			if !ok {
				n = len(names)
				index[name] = n
				names = append(names, name)
			}
			at = append(at, n)
		}
	}
	const batch = 16 // names in a unit of work
	demangled := make([]string, len(names))
	err := budget.Each(ctx, (len(names)+batch-1)/batch, func(ctx context.Context, n int) error {
		for i := n * batch; i < min((n+1)*batch, len(names)); i++ {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			demangled[i] = Demangle(names[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range images {
		for k := range images[i].Kernels {
			kernel := &images[i].Kernels[k]
			kernel.Name, kernel.Demangled = names[at[0]], demangled[at[0]]
			at = at[1:]
		}
	}
	return nil
}
