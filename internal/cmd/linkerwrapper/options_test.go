package linkerwrapper

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/link"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		args string
		id   option
		want string // how the host linker gets it
	}{
		{"--host-triple=x", optHostTriple, ""},
		{"-host-triple=x", optNone, "-host-triple=x"},
		{"--dry-run", optDryRun, ""},
		{"--dry-run=1", optNone, "--dry-run=1"},
		{"-mllvm -x", optMLLVM, ""},
		{"-offload-opt=x", optOffloadOpt, ""},
		{"-offload", optOutput, "-o ffload"},
		{"-ofoo", optOutput, "-o foo"},
		{"-o foo", optOutput, "-o foo"},
		{"--output foo", optOutput, "-o foo"},
		{"--output=foo", optOutput, "-o foo"},
		{"-output", optOutput, "-o utput"},
		{"/out:foo", optOutput, "/out:foo"},
		{"-?out:foo", optOutput, "-?out:foo"},
		{"-Ldir", optLibraryPath, "-L dir"},
		{"-library-path dir", optLibraryPath, "-L dir"},
		{"--library=dir", optLibraryPath, "-L dir"},
		{"-libpath:dir", optCOFFLibraryPath, "-libpath:dir"},
		{"-lname", optLibrary, "-l name"},
		{"-l name", optLibrary, "-l name"},
		{"-rpath a", optRPath, "-rpath a"},
		{"--rpath=a", optRPath, "--rpath a"},
		{"-rpath-link=a", optNone, "-rpath-link=a"},
		{"-r", optRelocatable, "--relocatable"},
		{"-relocatable", optRelocatable, "-relocatable"},
		{"-retain", optNone, "-retain"},
		{"--whole-archive", optWholeArchive, "--whole-archive"},
		{"/wholearchive", optWholeArchiveAll, "/wholearchive"},
		{"-wholearchive:a.lib", optWholeArchiveOf, "-wholearchive:a.lib"},
		{"--sysroot=s", optSysroot, "--sysroot=s"},
		{"-version", optVersion, ""},
		{"--arch=x", optInternal, ""},
		{"--unknown", optNone, "--unknown"},
		{"/path/to/file.o", optNone, "/path/to/file.o"},
		{"-", optNone, "-"},
		{"--", optNone, "--"},
	} {
		words, err := parse(strings.Fields(test.args))
		if err != nil || len(words) != 1 {
			t.Errorf("%s: %v, %v", test.args, words, err)
			continue
		}
		if got := strings.Join(words[0].host, " "); words[0].id != test.id || got != test.want {
			t.Errorf("%s: option %d, %q, expected %d, %q", test.args, words[0].id, got, test.id, test.want)
		}
		looksLikeInput := test.id == optNone && (!strings.HasPrefix(test.args, "-") || test.args == "-" || test.args == "--")
		if words[0].input != looksLikeInput {
			t.Errorf("%s: input is %v", test.args, words[0].input)
		}
	}
	words, err := parse([]string{"--should-extract=a,b,"})
	if err != nil || !slices.Equal(words[0].values, []string{"a", "b", ""}) {
		t.Errorf("%v, %v", words, err)
	}
	if words, err := parse([]string{"", "a.o", "-o", ""}); err != nil || len(words) != 2 || !slices.Equal(words[1].host, []string{"-o", ""}) {
		t.Errorf("empty words: %v, %v", words, err)
	}
	for _, last := range []string{"-o", "-mllvm", "-L", "-l", "--output", "-rpath", "--library"} {
		if _, err := parse([]string{"a.o", last}); err == nil || err.Error() != last+": missing argument" {
			t.Errorf("%s: %v", last, err)
		}
	}
}

// FuzzParse checks that nothing of a command line is lost on the way to the host
// linker but the wrapper's own options.
func FuzzParse(f *testing.F) {
	f.Add("-o out a.o -L dir --dry-run -lname -- /out:x -mllvm -a")
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Fields(text)
		words, err := parse(args)
		if err != nil {
			return
		}
		count := 0
		for _, w := range words {
			count += 1
			if w.id == optNone && !slices.Contains(args, w.host[0]) {
				t.Errorf("%q became %q", args, w.host)
			}
			if w.id.passed() != (len(w.host) > 0) {
				t.Errorf("%q: option %d", w.host, w.id)
			}
		}
		if count > len(args) {
			t.Errorf("%d words of %d", count, len(args))
		}
	})
}

func TestCache(t *testing.T) {
	for size, want := range map[string]int64{"": 0, "100": 100, "5K": 5 << 10, "500M": 500 << 20, "20G": 20 << 30, "1T": 1 << 40, "1.5GiB": 3 << 29, "2 GB": 2e9} {
		w := wrapper{call: environment(map[string]string{"OFFLOAD_CACHE": "dir", "OFFLOAD_CACHE_SIZE": size})}
		store, err := w.cache()
		if err != nil || store == nil || store.Dir != "dir" || store.Limit != want {
			t.Errorf("%q: %+v, %v", size, store, err)
		}
	}
	for _, size := range []string{"x", "0", "-1", "1P", "9999999999999G", "G"} {
		w := wrapper{call: environment(map[string]string{"OFFLOAD_CACHE": "dir", "OFFLOAD_CACHE_SIZE": size})}
		if store, err := w.cache(); err == nil {
			t.Errorf("%q: %+v", size, store)
		}
	}
	w := wrapper{call: environment(nil)}
	if store, err := w.cache(); store != nil || err != nil {
		t.Errorf("without a directory: %+v, %v", store, err)
	}
}

func TestHelp(t *testing.T) {
	var short, long strings.Builder
	printHelp(&short, false)
	printHelp(&long, true)
	// Every option that is for callers is in the help.
	for _, s := range spellings() {
		name := strings.TrimRight(s.text, "=")
		if strings.HasPrefix(name, "--") && s.id != optOutput && s.id != optLibraryPath && s.id != optRPath && s.id != optWholeArchive && s.id != optNoWholeArchive && s.id != optVersion && !strings.Contains(long.String(), name) {
			t.Errorf("%s is not in the help", name)
		}
	}
	if len(short.String()) >= len(long.String()) {
		t.Error("no option is hidden")
	}
	if diff := cmp.Diff("OVERVIEW", short.String()[:8]); diff != "" {
		t.Error(diff)
	}
}

// Faults of targets have LLVM's words, after those for the step.
func TestTargetMessage(t *testing.T) {
	const want = "'clang-offload-bundler' failed: expecting exactly one host target but got 2"
	if got := message(&link.Error{Fault: link.NoBundle, Err: &target.HostError{Count: 2}}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
