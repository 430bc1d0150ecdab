package kernels

import (
	"fmt"
	"regexp"
	"strings"
)

// The pass with the resources of kernels, and lines that clang and lld print about them, without their source.
const (
	resourcePass = "kernel-resource-usage"

	resourceLine = `^(.+):([0-9]+):[0-9]+: (?:remark: )?(Function Name|    [A-Z][A-Za-z ]*(?: \[[a-z/]+\])?): ([^\[]*?)( \[-Rpass-analysis=` + resourcePass + `\])?$`
	excerptLine  = `^ *[0-9]* \| `
)

// TakeResources takes the remarks about the resources of kernels (-Rpass-analysis=kernel-resource-usage) out of the messages
// of clang or lld. It returns the other messages, and the remarks as an optimization record.
func TakeResources(messages string) (rest, record string) {
	resource, excerpt := regexp.MustCompile(resourceLine), regexp.MustCompile(excerptLine)
	var kept, taken strings.Builder
	function, after := "", false
	for line := range strings.Lines(messages) {
		match := resource.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if match == nil || match[5] == "" && strings.Contains(line, ": remark: ") {
			if after && excerpt.MatchString(line) {
				continue // the source at the remark
			}
			after = false
			kept.WriteString(line)
			continue
		}
		after = true
		name := strings.TrimSpace(match[3])
		if name == "Function Name" {
			function = match[4]
			continue
		}
		fmt.Fprintf(&taken, "--- !Analysis\nPass: %s\nName: %s\n", resourcePass, name)
		if match[1] != "<unknown>" {
			fmt.Fprintf(&taken, "DebugLoc: { File: %s, Line: %s, Column: 0 }\n", quoted(match[1]), match[2])
		}
		fmt.Fprintf(&taken, "Function: %s\nArgs:\n  - String: %s\n...\n", quoted(function), quoted(name+": "+match[4]))
	}
	return kept.String(), taken.String()
}

// quoted returns a text as a scalar of YAML.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
