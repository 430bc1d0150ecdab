package wheel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Device is a wheel with device code that a host wheel requires for some of its extras.
type Device struct {
	Project string
	Extras  []string
}

// deviceMark is in the names of the projects of all device wheels, here and in ROCm.
const deviceMark = "device-"

// requirement parses a requirement of the form NAME==VERSION; extra == "EXTRA".
func requirement(value string) (name, version, extra string, ok bool) {
	what, marker, ok := strings.Cut(value, ";")
	if !ok {
		return "", "", "", false
	}
	name, version, ok = strings.Cut(what, "==")
	key, quoted, equal := strings.Cut(marker, "==")
	extra = strings.TrimSpace(quoted)
	if !ok || !equal || strings.TrimSpace(key) != "extra" || len(extra) < 3 || extra[0] != '"' && extra[0] != '\'' || extra[len(extra)-1] != extra[0] {
		return "", "", "", false
	}
	name, version, extra = strings.Trim(name, " \t("), strings.Trim(version, " \t)"), extra[1:len(extra)-1]
	return name, version, extra, ValidName(name) && ValidName(extra)
}

// device returns the project and extra of a requirement of a device wheel with the version of h.
func (h *Headers) device(key, value string) (project, extra string, ok bool) {
	if !strings.EqualFold(key, "Requires-Dist") {
		return "", "", false
	}
	name, version, extra, ok := requirement(value)
	if !ok || version != h.Get("Version") || !strings.Contains(Normalize(name), deviceMark) {
		return "", "", false
	}
	return Normalize(name), extra, true
}

// Devices returns the device wheels that METADATA requires, in order.
func (h *Headers) Devices() []Device {
	var all []Device
	for _, f := range h.fields {
		project, extra, ok := h.device(f.key, f.value)
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(d Device) bool { return d.Project == project })
		if i < 0 {
			i = len(all)
			all = append(all, Device{Project: project})
		}
		all[i].Extras = append(all[i].Extras, extra)
	}
	return all
}

// AddDevices adds device wheels to METADATA.
func (h *Headers) AddDevices(devices []Device) {
	if was := h.Get("Metadata-Version"); was != WithExtras(was) {
		h.Set("Metadata-Version", WithExtras(was))
	}
	declared := h.All("Provides-Extra")
	version := h.Get("Version")
	for _, d := range devices {
		for _, extra := range d.Extras {
			if !slices.Contains(declared, extra) {
				declared = append(declared, extra)
				h.Add("Provides-Extra", extra)
			}
			h.Add("Requires-Dist", fmt.Sprintf("%s==%s; extra == %q", d.Project, version, extra))
		}
	}
}

// WithExtras returns a version of METADATA, or the first with extras if it is older.
func WithExtras(version string) string {
	const first = 2.1
	if v, err := strconv.ParseFloat(version, 64); err != nil || v < first {
		return strconv.FormatFloat(first, 'f', -1, 64)
	}
	return version
}

// KeepDevices removes device wheels from METADATA, and extras that required nothing else.
func (h *Headers) KeepDevices(keep func(project, extra string) bool) {
	removed := make(map[string]bool)
	h.Remove(func(key, value string) bool {
		project, extra, ok := h.device(key, value)
		drop := ok && !keep(project, extra)
		if drop {
			removed[Normalize(extra)] = true
		}
		return drop
	})
	for _, value := range h.All("Requires-Dist") {
		if _, marker, ok := strings.Cut(value, ";"); ok {
			for extra := range removed {
				if strings.Contains(marker, `"`+extra+`"`) || strings.Contains(marker, `'`+extra+`'`) {
					delete(removed, extra)
				}
			}
		}
	}
	h.Remove(func(key, value string) bool {
		return strings.EqualFold(key, "Provides-Extra") && removed[Normalize(value)]
	})
}

// Requires reports whether METADATA requires exactly a version of a project, for no extra.
func (h *Headers) Requires(project, version string) bool {
	return slices.ContainsFunc(h.All("Requires-Dist"), func(value string) bool {
		name, rest, ok := strings.Cut(value, "==")
		return ok && Normalize(strings.Trim(name, " (")) == Normalize(project) && strings.Trim(rest, " )") == version
	})
}
