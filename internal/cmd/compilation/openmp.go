package compilation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// directive returns what follows the # of a directive, without blanks, or "" for another line.
func directive(line string) string {
	const blanks = " \t"
	if rest, ok := strings.CutPrefix(strings.TrimLeft(line, blanks), "#"); ok {
		return strings.TrimLeft(rest, blanks)
	}
	return ""
}

// included returns the name that an inclusion has, with the text after it, and the character before
// the name, a quote or <. Macros have no such character: the result is false.
func included(line string) (name string, quote byte, ok bool) {
	rest, ok := strings.CutPrefix(directive(line), "include")
	rest = strings.TrimLeft(rest, " \t")
	if !ok || rest == "" || rest[0] != '"' && rest[0] != '<' {
		return "", 0, false
	}
	return rest[1:], rest[0], true
}

// marked returns the length of a line marker up to its name, 0 for another line.
func marked(line string) int {
	rest, ok := strings.CutPrefix(line, "# ")
	name := strings.TrimLeft(rest, "0123456789")
	if !ok || name == rest || !strings.HasPrefix(name, ` "`) {
		return 0
	}
	return len(line) - len(name) + len(` "`)
}

// entered returns the file of a line marker at the start of an included file, "" for another line.
func entered(line string) string {
	at, end := marked(line), strings.LastIndexByte(line, '"')
	if at == 0 || end < at {
		return ""
	}
	if flags := line[end+1:]; flags != " 1" && !strings.HasPrefix(flags, " 1 ") {
		return ""
	}
	return line[at:end]
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
		// A directive can name a file by the end of its path.
		for name, found := entered(line), true; found && name != ""; _, name, found = strings.Cut(name, "/") {
			read[name] = true
		}
	}
	var result []string
	folder := ""
	for i := 0; i < len(printed); i++ {
		line := printed[i]
		if at := marked(line); at > 0 {
			name := line[at:]
			folder = name[:strings.LastIndexByte(name, '/')+1]
		}
		original, name, quoted := "", "", false
		if line == expanded && i+1 < len(printed) {
			if text, quote, ok := included(printed[i+1]); ok {
				original, quoted, name = printed[i+1], quote == '"', text
				if end := strings.IndexAny(name, `">`); end >= 0 {
					name = name[:end]
				}
			}
		}
		switch {
		case original == "" || read[name]:
			result = append(result, line)
			continue
		case quoted && folder != "" && !strings.HasPrefix(name, "/"):
			path := `"` + folder + name + `"`
			result = append(result, "#if __has_include("+path+")", "#include "+path, "#else", original, "#endif")
		default:
			result = append(result, original)
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
		case len(text) > 2 && text[0] == "#if 0" && strings.HasPrefix(directive(text[1]), "el"):
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
	at := marked(line)
	if at == 0 || at == len(line) {
		return line
	}
	switch name := line[at:]; {
	case name[0] == '<', name[0] == '"':
		return line
	case name[0] == '/':
		return line[:at] + "//system" + name
	default:
		return line[:at] + "//" + name
	}
}
