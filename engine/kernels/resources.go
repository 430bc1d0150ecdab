package kernels

import (
	"fmt"
	"strconv"
	"strings"
)

// The pass with the resources of kernels, and the end of clang's lines about them.
const (
	resourcePass = "kernel-resource-usage"
	resourceTag  = " [-Rpass-analysis=" + resourcePass + "]"
)

// TakeResources takes the remarks about the resources of kernels (-Rpass-analysis=kernel-resource-usage) out of the messages
// of clang or lld. It returns the other messages, and the remarks as an optimization record.
func TakeResources(messages string) (rest, record string) {
	var kept, taken strings.Builder
	function, after := "", false
	for line := range strings.Lines(messages) {
		file, number, name, value, ok := resource(strings.TrimRight(line, "\r\n"))
		if !ok {
			if after && isExcerpt(line) {
				continue // the source at the remark
			}
			after = false
			kept.WriteString(line)
			continue
		}
		after = true
		if name == "Function Name" {
			function = value
			continue
		}
		fmt.Fprintf(&taken, "--- !Analysis\nPass: %s\nName: %s\n", resourcePass, name)
		if file != "<unknown>" {
			fmt.Fprintf(&taken, "DebugLoc: { File: %s, Line: %d, Column: 0 }\n", quoted(file), number)
		}
		fmt.Fprintf(&taken, "Function: %s\nArgs:\n  - String: %s\n...\n", quoted(function), quoted(name+": "+value))
	}
	return kept.String(), taken.String()
}

// resource splits a line about a resource: FILE:LINE:COLUMN: remark: NAME: VALUE [TAG] of clang, without remark and tag of lld.
func resource(line string) (file string, number int, name, value string, ok bool) {
	body, tagged := strings.CutSuffix(line, resourceTag)
	place, text, found := strings.Cut(body, ": remark: ")
	if found != tagged {
		return "", 0, "", "", false
	}
	if !found { // lld indents all but the first
		if place, text, found = strings.Cut(body, ": Function Name: "); found {
			text = "Function Name: " + text
		} else if place, text, found = strings.Cut(body, ":     "); !found || text == "" || text[0] < 'A' || text[0] > 'Z' {
			return "", 0, "", "", false
		}
	}
	column := strings.LastIndexByte(place, ':')
	if column < 0 {
		return "", 0, "", "", false
	}
	at := strings.LastIndexByte(place[:column], ':')
	if at < 0 {
		return "", 0, "", "", false
	}
	number, err := strconv.Atoi(place[at+1 : column])
	name, value, ok = strings.Cut(strings.TrimSpace(text), ": ")
	return place[:at], number, name, value, ok && err == nil
}

// isExcerpt reports whether a line shows source: its number, a bar and the source, or marks below it.
func isExcerpt(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "| ")
}

// quoted returns a text as a scalar of YAML.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
