package compilation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// functions is the header of clang that declares the functions of OpenMP devices. Releases that do
// not have it declare them in other headers.
const functions = "__clang_openmp_device_functions.h"

// deviceFlags returns the flags with which clang's driver compiles OpenMP for a GPU: its own
// headers precede those of the system. They declare variants of mathematical functions, among
// others.
func deviceFlags(clang string, include bool) ([]string, error) {
	cmd := exec.Command(find(clang), "-no-canonical-prefixes", "-print-resource-dir")
	cmd.Stderr = os.Stderr
	dir, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -print-resource-dir: %w", clang, err)
	}
	headers := strings.TrimRight(string(dir), "\n") + "/include"
	wrappers := headers + "/openmp_wrappers"
	flags := []string{"-isystem", wrappers, "-isystem", headers + "/llvm_libc_wrappers"}
	if include {
		if _, err := os.Stat(filepath.Join(wrappers, functions)); err == nil {
			flags = append(flags, "-include", functions)
		}
	}
	return flags, nil
}

// Lines that clang writes with -frewrite-includes.
const (
	expanded      = "#if 0 /* expanded by -frewrite-includes */"
	disabled      = "#if 0 /* disabled by -frewrite-includes */"
	disabledUntil = "#endif /* disabled by -frewrite-includes */"
)

var (
	// entered matches the line marker at the start of an included file.
	entered = once(`^# [0-9]+ ".*" 1( |$)`)
	marker  = once(`^# [0-9]+ "`)
	// inclusion matches a directive with a literal name, and has the name.
	inclusion = once(`^[ \t]*#[ \t]*include[ \t]*(["<])`)
	// alternative matches #elif, #else and similar directives.
	alternative = once(`^[ \t]*#[ \t]*el`)
)

// once returns a function that compiles an expression at its first call.
func once(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// portable turns the output of clang -E -frewrite-includes into a source for compilations on any
// machine, for the host and for devices:
//
//   - The source begins with empty lines.
//   - Conditions, which were evaluated for the host, are restored.
//   - The inclusion of headers that the host does not include is restored. Files that the host reads
//     anywhere are in the text, which may contain #pragma once, and stay disabled.
//   - Line markers name files like labels, with // at the start.
func portable(text []byte, emptyLines int) []byte {
	var out bytes.Buffer
	out.Write(bytes.Repeat([]byte{'\n'}, emptyLines))
	var printed []string
	if len(text) > 0 {
		printed = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	for _, line := range withConditions(withInclusions(printed)) {
		out.WriteString(line)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// withInclusions restores the inclusion of headers that no line marker names.
func withInclusions(printed []string) []string {
	read := map[string]bool{}
	for _, line := range printed {
		if entered().MatchString(line) {
			name := line[strings.IndexByte(line, '"')+1 : strings.LastIndexByte(line, '"')]
			// A directive can name a file by the end of its path.
			for found := true; found; _, name, found = strings.Cut(name, "/") {
				read[name] = true
			}
		}
	}
	var result []string
	folder := ""
	for i := 0; i < len(printed); i++ {
		line := printed[i]
		if marker().MatchString(line) {
			name := line[strings.IndexByte(line, '"')+1:]
			folder = name[:strings.LastIndexByte(name, '/')+1]
		}
		directive, name, quoted := "", "", false
		if line == expanded && i+1 < len(printed) {
			directive = printed[i+1]
			if m := inclusion().FindStringSubmatchIndex(directive); m != nil {
				quoted = directive[m[2]] == '"'
				name = directive[m[3]:]
				if end := strings.IndexAny(name, `">`); end >= 0 {
					name = name[:end]
				}
			} else {
				directive = ""
			}
		}
		switch {
		case directive == "" || read[name]:
			result = append(result, line)
			continue
		case quoted && folder != "" && !strings.HasPrefix(name, "/"):
			path := `"` + folder + name + `"`
			result = append(result, "#if __has_include("+path+")", "#include "+path, "#else", directive, "#endif")
		default:
			result = append(result, directive)
		}
		i += 2 // the directive, and the end of the disabled text
	}
	return result
}

// withConditions restores the conditions that clang disabled, and renames files in line markers.
func withConditions(lines []string) []string {
	var result []string
	for i := 0; i < len(lines); i++ {
		if lines[i] != disabled {
			result = append(result, renamed(lines[i]))
			continue
		}
		length := slices.Index(lines[i:], disabledUntil)
		if length < 0 {
			return append(result, lines[i:]...)
		}
		// After the disabled text, a line has the result of the condition.
		end := min(i+length+2, len(lines))
		block, text := lines[i:end], lines[i+1:i+length]
		switch {
		case len(block) < length+2 || len(text) < 2 || text[len(text)-1] != "#endif":
			result = append(result, block...)
		case len(text) > 2 && text[0] == "#if 0" && alternative().MatchString(text[1]):
			result = append(result, text[1:len(text)-1]...)
		default:
			result = append(result, text[:len(text)-1]...)
		}
		i = end - 1
	}
	return result
}

// renamed returns a line marker with the name of its file like a label; other lines are unchanged.
func renamed(line string) string {
	at := marker().FindStringIndex(line)
	if at == nil || at[1] == len(line) {
		return line
	}
	switch name := line[at[1]:]; {
	case name[0] == '<', name[0] == '"':
		return line
	case name[0] == '/':
		return line[:at[1]] + "//system" + name
	default:
		return line[:at[1]] + "//" + name
	}
}
