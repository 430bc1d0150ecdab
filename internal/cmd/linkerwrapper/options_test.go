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
		name string // the first spelling of the option, "" for none
		want string // how the host linker gets it
	}{
		{"--host-triple=x", "--host-triple=", ""},
		{"-host-triple=x", "", "-host-triple=x"},
		{"--dry-run", "--dry-run", ""},
		{"--dry-run=1", "", "--dry-run=1"},
		{"-mllvm -x", "-mllvm", ""},
		{"-offload-opt=x", "--offload-opt=", ""},
		{"-offload", "-o", "-o ffload"},
		{"-ofoo", "-o", "-o foo"},
		{"-o foo", "-o", "-o foo"},
		{"--output foo", "--output=", "-o foo"},
		{"--output=foo", "--output=", "-o foo"},
		{"-output", "-o", "-o utput"},
		{"/out:foo", "/out:", "/out:foo"},
		{"-?out:foo", "/out:", "-?out:foo"},
		{"-Ldir", "-L", "-L dir"},
		{"-library-path dir", "--library-path=", "-L dir"},
		{"--library=dir", "--library-path=", "-L dir"},
		{"-libpath:dir", "/libpath:", "-libpath:dir"},
		{"-lname", "-l", "-l name"},
		{"-l name", "-l", "-l name"},
		{"-rpath a", "--rpath", "-rpath a"},
		{"--rpath=a", "--rpath=", "--rpath a"},
		{"-rpath-link=a", "", "-rpath-link=a"},
		{"-r", "-r", "--relocatable"},
		{"-relocatable", "--relocatable", "-relocatable"},
		{"-retain", "", "-retain"},
		{"--whole-archive", "--whole-archive", "--whole-archive"},
		{"/wholearchive", "/wholearchive", "/wholearchive"},
		{"-wholearchive:a.lib", "/wholearchive:", "-wholearchive:a.lib"},
		{"--sysroot=s", "--sysroot=", "--sysroot=s"},
		{"-version", "--version", ""},
		{"--arch=x", "--arch=", ""},
		{"--unknown", "", "--unknown"},
		{"/path/to/file.o", "", "/path/to/file.o"},
		{"-", "", "-"},
		{"--", "", "--"},
	} {
		words, err := parse(strings.Fields(test.args))
		if err != nil || len(words) != 1 {
			t.Errorf("%s: %v, %v", test.args, words, err)
			continue
		}
		name := ""
		if words[0].option != nil {
			name, _, _ = strings.Cut(words[0].spellings, " ")
		}
		if got := strings.Join(words[0].linker, " "); name != test.name || got != test.want {
			t.Errorf("%s: option %q, %q, expected %q, %q", test.args, name, got, test.name, test.want)
		}
		looksLikeInput := test.name == "" && (!strings.HasPrefix(test.args, "-") || test.args == "-" || test.args == "--")
		if words[0].input != looksLikeInput {
			t.Errorf("%s: input is %v", test.args, words[0].input)
		}
	}
	if words, err := parse([]string{"", "a.o", "-o", ""}); err != nil || len(words) != 2 || !slices.Equal(words[1].linker, []string{"-o", ""}) {
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
			if w.option == nil && !slices.Contains(args, w.linker[0]) {
				t.Errorf("%q became %q", args, w.linker)
			}
			if passed := w.option == nil || w.host; passed != (len(w.linker) > 0) {
				t.Errorf("%q: option %q", w.linker, w.spellings)
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
	for _, o := range options {
		if o.about == "" && strings.HasPrefix(o.spellings, "--") && !slices.Contains([]string{version, "--rpath -rpath", "--rpath= -rpath=", "--whole-archive -whole-archive", "--no-whole-archive -no-whole-archive"}, o.spellings) {
			t.Errorf("%s is not in the help", o.spellings)
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
