package coverage

import (
	"fmt"
	"strings"
)

// Datum is a file of a directory with data for GPUs that is no code object: a database of MIOpen or an
// archive of AOTriton.
type Datum struct {
	Name string
	// Processor is the processor of the data. Each x stands for a digit: gfx11xx.
	Processor string
	// Fault describes why the file cannot be used, or is "".
	Fault string
}

// fits reports whether the data is for a processor, and how many characters of its name are exact.
func (d *Datum) fits(processor string) (exact int, ok bool) {
	if len(d.Processor) != len(processor) {
		return 0, false
	}
	for i := range len(processor) {
		switch {
		case d.Processor[i] == processor[i]:
			exact++
		case d.Processor[i] != 'x' && d.Processor[i] != 'X':
			return 0, false
		}
	}
	return exact, true
}

// AskData returns the data that GPUs find in a directory: the files that are for their processor or, if
// it has no such files, for the smallest family that has it.
func AskData(folder string, data []Datum, gpus []GPU) FileReport {
	r := report(folder, gpus, func(m Mode) []answer { return []answer{askData(folder, data, m)} })
	r.Note = r.reason()
	return r
}

func askData(folder string, data []Datum, m Mode) answer {
	best := -1
	var found []*Datum
	for i := range data {
		exact, ok := data[i].fits(m.Processor)
		if !ok || exact < best {
			continue
		}
		if exact > best {
			best, found = exact, nil
		}
		found = append(found, &data[i])
	}
	if len(found) == 0 {
		return answer{verdict: No, place: &Place{Reason: fmt.Sprintf("%s has no file for %s", folder, m.Processor)}}
	}
	place := &Place{Archive: found[0].Name, Target: found[0].Processor}
	var faults []string
	for _, d := range found {
		if d.Fault != "" {
			faults = append(faults, d.Name+": "+d.Fault)
		} else if len(faults) > 0 && strings.HasPrefix(faults[0], place.Archive+": ") {
			place.Archive = d.Name
		}
	}
	a := answer{verdict: Yes, how: Data, entry: found[0].Processor, place: place}
	if len(faults) > 0 {
		place.Reason = strings.Join(faults[:min(len(faults), 3)], "; ")
		if a.verdict = Partly; len(faults) == len(found) {
			a.verdict, place.Archive, place.Target = No, "", ""
		}
	}
	return a
}
