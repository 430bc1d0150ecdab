package verb

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
)

// native is the name that the rules accept for the GPUs of the machine.
const native = "native"

// checkProcessor returns an error for a target in a short form whose processor does not exist.
// Whole entry IDs and triples are free.
func checkProcessor(name string) error { return checkName(name, true) }

// checkImage returns an error for a target of device code to keep or to remove: one of
// checkProcessor, or sm_N and compute_N, which CUDA fatbinaries state as numbers.
func checkImage(name string) error {
	kind, number, _ := strings.Cut(name, "_")
	if _, err := strconv.ParseUint(number, 10, 32); err == nil && (kind == "sm" || kind == "compute") {
		return nil
	}
	return checkProcessor(name)
}

// checkGPU returns an error for the name of a GPU that does not exist.
func checkGPU(name string) error { return checkName(name, false) }

// checkName returns an error for a processor that does not exist. wholeIDs reports whether a whole
// entry ID can be given instead.
func checkName(name string, wholeIDs bool) error {
	processor, _, _ := strings.Cut(name, ":")
	group := target.ArchGroup(processor)
	if group == nil { // names of products: MI300X
		group = target.ArchGroup(strings.TrimRight(strings.ToLower(processor), "ax"))
	}
	switch {
	case strings.ContainsAny(name, " ;"):
		return fmt.Errorf("%q is not one target: separate targets with commas, or repeat the flag", name)
	case group != nil:
		return fmt.Errorf("%s is a group: use %s", processor, strings.Join(group, ","))
	case processor == native:
		return fmt.Errorf("%s is a name for Bazel rules: use the processor of the GPU, such as gfx942", native)
	case target.KnownProcessor(processor) || strings.Contains(name, "-") && !strings.HasPrefix(name, "gfx"):
		return nil
	}
	if processor == "" {
		return errors.New("found an empty name, expected a processor such as gfx90a or gfx1100")
	}
	message, near := processor+" is not a known processor", nearestProcessor(processor)
	if near != "" {
		message += "; did you mean " + near + "?"
	}
	switch {
	case wholeIDs:
		message += " (whole entry IDs are always accepted)"
	case near == "":
		message += "; expected one such as gfx90a or gfx1100"
	}
	return errors.New(message)
}

// nearestProcessor returns the processor or group with a name similar to one, or "". Of names with
// the same distance, it prefers one that differs in case, then one that continues the typed name,
// then one with a letter, such as gfx90a.
func nearestProcessor(typed string) string {
	const longest = 24
	if len(typed) < 4 || len(typed) > longest {
		return ""
	}
	lower := strings.ToLower(typed)
	distance := func(name string) int {
		d := 2 * nearest.Distance(lower, name)
		if !strings.HasPrefix(name, lower) {
			d++
		}
		return d
	}
	letters := func(name string) int { return -strings.Count(strings.TrimLeft(name, "gfxsm_0123456789"), "") }
	names := target.Processors()
	best := slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(letters(a), letters(b)))
	})
	if most := 2*max(1, len(typed)/3) + 1; distance(best) > most {
		return ""
	}
	return best
}
