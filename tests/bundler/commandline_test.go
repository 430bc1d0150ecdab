package bundler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var optionNames = strings.Fields("### allow-missing-bundles bundle-align check-input-archive compress compression-level " +
	"hip-openmp-compatible input inputs list output outputs targets type unbundle verbose")

// Help and version equal LLVM's.
func TestHelp(t *testing.T) {
	b := newBench(t)
	var calls []call
	names := []string{"help", "help-hidden", "help-list", "help-list-hidden", "version"}
	if *number >= 24 {
		names = []string{"help", "help-list", "version"} // the other help texts list options of LLVM's library, too
	}
	for _, name := range names {
		calls = append(calls, call{args: []string{"-" + name}}, call{args: []string{"--" + name}}, call{args: []string{"--nosuch", "--" + name}},
			call{args: []string{"--" + name, "--nosuch"}}, call{args: []string{"--" + name + "=1"}}, call{args: []string{"-type=o", "-" + name + "="}})
	}
	for _, args := range []string{"-h", "-type=o -h", "-type=zz -h", "-h=0 -type=o", "-h=0", "-type=o -h=2", "-hh -type=o", "-hunbundle -type=o",
		"-hinput=x -type=o", "-h -unbundle -type=i -h=false -output=x"} {
		calls = append(calls, call{args: strings.Fields(args)})
	}
	b.compareAll(t, calls)
}

// Misspelled options cause LLVM's messages, with its suggestions.
func TestSpelling(t *testing.T) {
	b := newBench(t)
	r := random(2)
	known := append([]string{"help", "help-list", "help-hidden", "help-list-hidden", "print-options", "print-all-options", "version"}, optionNames...)
	isKnown := func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		for _, k := range known {
			if name == k {
				return true
			}
		}
		return name == "h" || name == "debug-only" || name == "lenient"
	}
	var calls []call
	for len(calls) < 160 {
		name := []byte(pick(r, known))
		for range 1 + r.IntN(5) {
			at := r.IntN(len(name) + 1)
			switch r.IntN(3) {
			case 0:
				name = append(name[:at], append([]byte{byte('a' + r.IntN(26))}, name[at:]...)...)
			case 1:
				if at < len(name) && len(name) > 2 {
					name = append(name[:at], name[at+1:]...)
				}
			default:
				if at < len(name) {
					name[at] = byte('a' + r.IntN(26))
				}
			}
		}
		arg := string(name)
		if len(arg) < 2 || isKnown(arg) {
			continue
		}
		switch r.IntN(5) {
		case 0:
			arg += "=x"
		case 1:
			arg += "="
		}
		calls = append(calls, call{args: []string{"-type=o", pick(r, []string{"-", "--"}) + arg}})
	}
	for _, args := range []string{"", "-", "--", "---", "-=", "--=x", "-type", "-type=o -input", "-type=o x", "-type=o -- -unbundle", "-type=o -- x y",
		"-type=o -bundle-align", "-type=o -bundle-align=", "-type=o -bundle-align=-1", "-type=o -bundle-align=x", "-type=o -bundle-align=4294967296",
		"-type=o -bundle-align=0x", "-type=o -bundle-align=08", "-type=o -bundle-align=1_0", "-type=o -bundle-align +1",
		"-type=o -compression-level=", "-type=o -compression-level=x", "-type=o -compression-level=2147483648", "-type=o -compression-level=-2147483649",
		"-type=o -compression-level=-", "-type=o -compression-level=--1", "-type=o -compression-level",
		"-type=o -unbundle=2", "-type=o -unbundle=yes", "-type=o -unbundle=tRue", "-type=o -list=off -compress=-1 -###=x -verbose=02",
		"-type=o -unbundle= -list", "-type=o -unbundle=TRUE -list=True", "-type=o -unbundle=1 -list=1", "-type=o -unbundle=0 -unbundle -list",
		"-type=o -unbundle=false -list=FALSE -###=False", "-type=o -type=i -type=bc", "-type= -list -input=in/one", "-type o -unbundle -list",
		"--type o --unbundle --list", "-nosuch -type", "-nosuch -another", "@nosuchfile", "-type=o @", "-type=o @nosuchfile"} {
		calls = append(calls, call{args: strings.Fields(args)})
	}
	calls = append(calls, call{args: []string{"-type=o", ""}}, call{args: []string{"-type=o", "-input", ""}}, call{args: []string{"-type=bc", "-list", "-input", ""}})
	b.compareAll(t, calls)
}

// Errors are reported in LLVM's order: the test combines options at random and compares the first
// error.
func TestOrderOfChecks(t *testing.T) {
	b := newBench(t)
	r := random(3)
	parts := [][]string{
		{"-type=i", "-type=bc", "-type=o", "-type=a", "-type=zz", "-type=ast", "-type=s"},
		{"", "", "-unbundle", "-unbundle", "-list"},
		{"", "-input=in/one", "-input=in/one -input=in/two", "-input=in/nosuch", "-inputs=in/one,in/two", "-inputs=in/one -input=in/two", "-inputs=", "-input=in"},
		{"", "-output=x", "-output=x -output=y", "-outputs=x,y", "-outputs=x -output=y", "-output=nosuch/x -output=y"},
		{
			"", "-targets=host-x86_64-unknown-linux-gnu", "-targets=host-x86_64-unknown-linux-gnu,openmp-x86_64-pc-linux-gnu",
			"-targets=hip-amdgcn-amd-amdhsa--gfx906,hip-amdgcn-amd-amdhsa--gfx908", "-targets=openmp-x86_64-pc-linux-gnu",
			"-targets=", "-targets=,", "-targets=x,x", "-targets=hxst-x86_64-pc-linux-gnu,host-x86_65-pc-linux-gnu",
			"-targets=hip-amdgcn-amd-amdhsa--gfx906 -targets=hip-amdgcn-amd-amdhsa--gfx906",
			"-targets=host-x86_64-unknown-linux-gnu,host-x86_64-unknown-linux-musl",
			"-targets=hip-amdgcn-amd-amdhsa--gfx906,hip-amdgcn-amd-amdhsa--gfx906:xnack+", "-targets=host-x86_64-linux",
		},
		{"", "", "", "-check-input-archive"},
		{"", "", "", "-allow-missing-bundles"},
	}
	seen := make(map[string]bool)
	var calls []call
	for len(calls) < 220 {
		var words []string
		for _, p := range parts {
			words = append(words, strings.Fields(pick(r, p))...)
		}
		r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		c := call{args: words}
		if line := c.String(); !seen[line] && !overwrites(line) {
			seen[line] = true
			calls = append(calls, c)
		}
	}
	b.compareAll(t, calls)
}

// overwrites reports whether two outputs of a call are one file.
func overwrites(line string) bool {
	return strings.Count(line, "-output=x") > 1
}

// Response files are expanded as by LLVM.
func TestResponseFiles(t *testing.T) {
	b := newBench(t)
	dir := b.inputs
	for name, text := range map[string]string{
		"list.rsp":      "-type=bc -list\n-input=in/nosuch",
		"quotes.rsp":    `-type="b"c '-input=in/no such' -l\ist "-input=in/a\"b" ''`,
		"nested.rsp":    "@in/list.rsp -compress",
		"recursive.rsp": "-list @in/recursive.rsp",
		"mutual1.rsp":   "-type=o @in/mutual2.rsp",
		"mutual2.rsp":   "-list @in/mutual1.rsp",
		"bom.rsp":       "\xef\xbb\xbf-type=bc -list",
		"utf16.rsp":     "\xff\xfe-\x00t\x00y\x00p\x00e\x00=\x00o\x00",
		"open.rsp":      `-type=bc "-input=unterminated`,
		"escape.rsp":    "-type=bc -list -input=in/a\\",
		"blank.rsp":     "\n\n  \t\r\n",
		"unknown.rsp":   "-type=bc\n-nosuch\n",
		"missing.rsp":   "@in/nosuch.rsp -type=o",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var calls []call
	for _, args := range []string{"@in/list.rsp", "@in/quotes.rsp", "@in/nested.rsp", "@in/bom.rsp -input=in/nosuch", "@in/utf16.rsp", "@in/open.rsp",
		"@in/escape.rsp", "@in/blank.rsp", "@in/unknown.rsp", "@in/missing.rsp", "-type=o @in/blank.rsp -list", "@in/list.rsp @in/list.rsp", "@in/recursive.rsp", "@in/mutual1.rsp", "-type=o @in"} {
		calls = append(calls, call{args: strings.Fields(args)})
	}
	b.compareAll(t, calls)
}

// Environment variables, and options that override them.
func TestEnvironment(t *testing.T) {
	b := newBench(t)
	list := []string{"-type=bc", "-list", "-input=in/one"}
	var calls []call
	for _, v := range []string{"", "0", "1", "2", "3", "4", "x", "-1", "+2", "02", "65536", "70000", " 2", "2 ", "0x2"} {
		calls = append(calls, call{args: list, env: []string{"COMPRESSED_BUNDLE_FORMAT_VERSION=" + v}},
			call{args: list, env: []string{"OFFLOAD_BUNDLER_COMPRESSION_LEVEL=" + v}})
	}
	for _, v := range []string{"1", "0", "true", ""} {
		calls = append(calls, call{args: list, env: []string{"OFFLOAD_BUNDLER_VERBOSE=" + v}},
			call{args: append(list, "-verbose=0"), env: []string{"OFFLOAD_BUNDLER_VERBOSE=" + v}},
			call{args: append(list, "-verbose"), env: []string{"OFFLOAD_BUNDLER_VERBOSE=" + v}},
			call{args: list, env: []string{"COMPRESSED_BUNDLE_FORMAT_VERSION=9", "OFFLOAD_BUNDLER_IGNORE_ENV_VAR=" + v}},
			call{args: []string{"-nosuch"}, env: []string{"COMPRESSED_BUNDLE_FORMAT_VERSION=9"}},
			call{args: []string{"-type=bc", "-h"}, env: []string{"COMPRESSED_BUNDLE_FORMAT_VERSION=9"}},
			call{args: []string{"-type=bc"}, env: []string{"OFFLOAD_BUNDLER_COMPRESSION_LEVEL=99999999999"}})
	}
	b.compareAll(t, calls)
}
