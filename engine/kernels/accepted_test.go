package kernels_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/kernels"
)

// limitsOf returns limits from rules and tolerances separated by spaces.
func limitsOf(t *testing.T, text string) (l kernels.Limits) {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		if strings.Contains(word, "=") {
			rule, growth, err := kernels.ParseTolerance(word)
			if err != nil {
				t.Fatal(err)
			}
			if l.Tolerances == nil {
				l.Tolerances = map[kernels.Rule]kernels.Growth{}
			}
			l.Tolerances[rule] = growth
			continue
		}
		rules, err := kernels.ParseRules(word)
		if err != nil {
			t.Fatal(err)
		}
		l.Rules = append(l.Rules, rules...)
	}
	return l
}

// lines returns the lines that accept failures.
func lines(failures []kernels.Failure) (list []string) {
	for _, f := range failures {
		list = append(list, f.Line())
	}
	return list
}

// Values that get worse exceed their rule, beyond its tolerance.
func TestTolerances(t *testing.T) {
	old := []kernels.Image{image("gfx90a", 100, kernel("a", "vgprs=32 sgprs=20 code_size=1000 occupancy=8 vgpr_spills=0 sgpr_spills=3"))}
	new := []kernels.Image{image("gfx90a", 101, kernel("a", "vgprs=40 sgprs=18 code_size=1100 occupancy=6 vgpr_spills=2 sgpr_spills=1"))}
	for limits, want := range map[string]string{
		"vgprs":                        "vgprs gfx90a a +8",
		"vgprs=7":                      "vgprs gfx90a a +8",
		"vgprs=8":                      "",
		"vgprs vgprs=8":                "",
		"vgprs=25%":                    "",
		"vgprs=24%":                    "vgprs gfx90a a +8",
		"code_size=10%":                "",
		"code-size=99":                 "code-size gfx90a a +100",
		"sgprs lds agprs scratch":      "",
		"occupancy":                    "occupancy gfx90a a -2",
		"occupancy=1":                  "occupancy gfx90a a -2",
		"occupancy=2":                  "",
		"vgpr_spills,sgpr-spills":      "vgpr-spills gfx90a a +2",
		"spills":                       "spills gfx90a a +2",
		"sgpr_spills":                  "",
		"vgpr_spills=1 vgprs=8 spills": "spills gfx90a a +2; vgpr-spills gfx90a a +2",
	} {
		d := kernels.Compare(old, new)
		limitsOf(t, limits).Check(d)
		if got := strings.Join(lines(d.Failures), "; "); got != want {
			t.Errorf("%s: got %q, want %q", limits, got, want)
		}
	}
	for _, bad := range []string{"", "vgprs", "vgprs=", "vgprs=x", "=8", "removed-kernels=1", "max-growth=1", "luck=1", "vgprs,sgprs"} {
		if _, _, err := kernels.ParseTolerance(bad); err == nil {
			t.Errorf("ParseTolerance(%q) has no error", bad)
		}
	}
}

// A list accepts exactly the changes in its lines; lines that accept nothing are stale.
func TestAccepted(t *testing.T) {
	old := []kernels.Image{
		image("gfx90a", 100, kernel("_Z1aPf", "scratch=0 vgprs=4"), kernel("k.intern.1", "scratch=0"), kernel("gone", "")),
		image("gfx900", 5, kernel("b", "")),
	}
	new := []kernels.Image{image("gfx90a", 110, kernel("_Z1aPf", "scratch=64 vgprs=9"), kernel("k.intern.2", "scratch=8"))}
	all := []string{
		"scratch gfx90a _Z1aPf +64  # a(float*)", "scratch gfx90a k.intern +8", "vgprs gfx90a _Z1aPf +5  # a(float*)",
		"removed-kernels gfx90a gone", "removed-archs gfx900", "max-growth gfx90a +10",
	}
	limits := limitsOf(t, "scratch vgprs removed-kernels removed-archs")
	limits.MaxGrowth = &kernels.Growth{}
	for _, test := range []struct {
		list            string
		failures, stale string // numbers of all, numbers of lines
	}{
		{"", "0 1 2 3 4 5", ""},
		{strings.Join(all, "\n"), "", ""},
		{"# nothing\n\n" + all[0] + "\r\n" + all[4], "1 2 3 5", ""},
		{"scratch gfx90a _Z1aPf +63", "0 1 2 3 4 5", ""}, // it has to be changed
		{"scratch gfx90a _Z1aPf +63\nscratch gfx90a _Z1aPf 100\nscratch gfx90a _Z1aPf +65", "1 2 3 4 5", "1 2"},
		{"scratch gfx900 _Z1aPf +64\nscratch gfx90a k.intern.3 8\nlds gfx90a _Z1aPf +8", "0 2 3 4 5", "1 3"},
	} {
		var err error
		if limits.Accepted, err = kernels.ParseAccepted(test.list); err != nil {
			t.Fatal(err)
		}
		d := kernels.Compare(old, new)
		limits.Check(d)
		var want []string
		for word := range strings.FieldsSeq(test.failures) {
			want = append(want, all[word[0]-'0'])
		}
		if diff := cmp.Diff(want, lines(d.Failures)); diff != "" || len(d.Failures)+len(d.Accepted) != len(all) {
			t.Errorf("%q: %d accepted, failures -want +got:\n%s", test.list, len(d.Accepted), diff)
		}
		var stale []string
		for _, s := range d.Stale {
			stale = append(stale, fmt.Sprint(s.Line))
		}
		if got := strings.Join(stale, " "); got != test.stale {
			t.Errorf("%q: stale lines %q, want %q", test.list, got, test.stale)
		}
	}
	for list, want := range map[string]string{
		"\nluck gfx90a a +1":     `line 2: found "luck", expected a rule: spills, `,
		"scratch gfx90a a":       `line 1: found "scratch gfx90a a", expected: scratch ARCH KERNEL CHANGE`,
		"scratch gfx90a a x":     `line 1: found "x", expected a change such as +64`,
		"removed-archs gfx90a a": `line 1: found "removed-archs gfx90a a", expected: removed-archs ARCH`,
		"max-growth gfx90a a +1": `line 1: found "max-growth gfx90a a +1", expected: max-growth ARCH CHANGE`,
		"scratch,lds gfx90a a 1": `line 1: found "scratch,lds", expected a rule: `,
	} {
		if _, err := kernels.ParseAccepted(list); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
	}
}

// A kernel in copies of an image counts once, however many copies the builds have.
func TestCopies(t *testing.T) {
	a := image("gfx90a", 100, kernel("k", "vgprs=4"), kernel("same", "vgprs=1"), kernel("gone", ""))
	b := image("gfx90a", 101, kernel("k", "vgprs=5"), kernel("same", "vgprs=1"), kernel("added", ""))
	want := []string{"gfx90a removed gone {}", "gfx90a added added {}", `gfx90a changed k {"vgprs":1}`}
	for _, test := range []struct{ old, new []kernels.Image }{
		{[]kernels.Image{a}, []kernels.Image{b}},
		{[]kernels.Image{a, a}, []kernels.Image{b, b}},
		{[]kernels.Image{a, a, a}, []kernels.Image{b}},
		{[]kernels.Image{a}, []kernels.Image{b, b}},
	} {
		d := kernels.Compare(clones(test.old), clones(test.new))
		if diff := cmp.Diff(want, summary(d)); diff != "" || d.Equal != 1 {
			t.Errorf("%d and %d copies: %d equal, -want +got:\n%s", len(test.old), len(test.new), d.Equal, diff)
		}
	}
	// Images that differ are no copies, although their kernels have the same names and values.
	other := image("gfx90a", 102, kernel("k", "vgprs=4"))
	d := kernels.Compare([]kernels.Image{image("gfx90a", 99, kernel("k", "vgprs=4")), other}, clones([]kernels.Image{other, other}))
	if len(d.Kernels) != 0 || d.Equal != 2 {
		t.Errorf("%d equal, %v", d.Equal, summary(d))
	}
}

// clones returns images with kernels of their own.
func clones(images []kernels.Image) []kernels.Image {
	all := append([]kernels.Image{}, images...)
	for i := range all {
		all[i].Kernels = append([]kernels.Kernel{}, all[i].Kernels...)
	}
	return all
}

// A suggestion removes failures, and harms if another kernel gets worse.
func TestSuggest(t *testing.T) {
	build := func(size int64, a, b string) []kernels.Image {
		return []kernels.Image{image("gfx90a", size, kernel("a", a), kernel("b", b))}
	}
	old, new := build(1, "scratch=0", "scratch=0 vgprs=8"), build(2, "scratch=64", "scratch=0 vgprs=8")
	limits := limitsOf(t, "scratch vgprs=4")
	for _, test := range []struct {
		tried           []kernels.Image
		removes, harms  string
		removedBySingle bool
	}{
		{build(3, "scratch=0", "scratch=0 vgprs=8"), "scratch gfx90a a +64", "", true},
		{build(3, "scratch=32", "scratch=0 vgprs=8"), "", "", false},
		{build(3, "scratch=0", "scratch=4 vgprs=8"), "scratch gfx90a a +64", "scratch gfx90a b +4", false},
		{build(3, "scratch=0", "scratch=0 vgprs=12"), "scratch gfx90a a +64", "", true},
		{build(3, "scratch=0", "scratch=0 vgprs=13"), "scratch gfx90a a +64", "vgprs gfx90a b +5", false},
		{[]kernels.Image{image("gfx90a", 3, kernel("b", "scratch=0 vgprs=8"))}, "scratch gfx90a a +64", "removed-kernels gfx90a a", false},
	} {
		d := kernels.Compare(old, new)
		limits.Check(d)
		limits.Suggest(d, old, new, test.tried, kernels.Flags{Name: "x"})
		s := d.Suggestions[0]
		removes, harms := strings.Join(lines(s.Removes), ";"), strings.Join(lines(s.Harms), ";")
		if removes != test.removes || harms != test.harms || (len(d.RemovedBy(d.Failures[0])) == 1) != test.removedBySingle {
			t.Errorf("removes %q, harms %q; want %q, %q", removes, harms, test.removes, test.harms)
		}
	}
}

// The remarks of worse kernels are those that only one build has.
func TestRemarks(t *testing.T) {
	record := func(spills string) string {
		return `--- !Missed
Pass:            regalloc
Name:            SpillReloadCopies
DebugLoc:        { File: 'it''s, a.hip', Line: 4, Column: 0 }
Function:        k.intern.` + spills + `
Args:
  - NumSpills:       '` + spills + `'
  - String:          ' spills in ''k''
      and so on'
...
--- !Passed
Pass:            inline
Name:            Inlined
Function:        k.intern.` + spills + `
Args:
  - Callee:          "f\tg"
    DebugLoc:        { File: a.hip, Line: 3, Column: 0 }
  - String:          ' inlined'
...
--- !Analysis
Pass:            asm-printer
Name:            InstructionMix
Function:        k.intern.` + spills + `
Args:
  - String:          'mix ` + spills + `'
...
`
	}
	d := kernels.Compare([]kernels.Image{image("gfx90a", 1, kernel("k.intern.8", "vgpr_spills=8"), kernel("better", "scratch=4"))},
		[]kernels.Image{image("gfx90a", 2, kernel("k.intern.9", "vgpr_spills=9"), kernel("better", "scratch=0"))})
	var old, new kernels.Remarks
	for name, text := range map[*kernels.Remarks]string{&old: record("8"), &new: record("9")} {
		if err := name.Add("gfx90a", text); err != nil {
			t.Fatal(err)
		}
	}
	if err := new.Add("gfx942", strings.ReplaceAll(record("7"), "k.intern.7", "better")); err != nil {
		t.Fatal(err)
	}
	d.AddRemarks(&old, &new)
	got := fmt.Sprint(d.Kernels[0].OldRemarks, d.Kernels[0].NewRemarks, d.Kernels[1].NewRemarks)
	want := "[{missed regalloc SpillReloadCopies it's, a.hip 4 8 spills in 'k' and so on k.intern}] [{missed regalloc SpillReloadCopies it's, a.hip 4 9 spills in 'k' and so on k.intern}] []"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, want := range map[string]string{
		"a-hip-amdgcn-amd-amdhsa-gfx90a:xnack+.opt.yaml": "gfx90a:xnack+", "d/gfx9-4-generic.opt.yaml": "gfx9-4-generic", "a.o.gfx942.opt.yaml": "gfx942", "a.opt.yaml": "", "gfx90a.yaml": "",
	} {
		if got := kernels.RecordArch(name); got != want {
			t.Errorf("%s: architecture %q, want %q", name, got, want)
		}
	}
	if old.Add("gfx90a", "no record") == nil || old.Add("", record("1")) == nil {
		t.Error("no errors")
	}
}

// TestLargeRecords reads a value of many lines, and compares many remarks of a kernel.
func TestLargeRecords(t *testing.T) {
	start := time.Now()
	var old, new kernels.Remarks
	long := "--- !Missed\nPass: inline\nFunction: k\nArgs:\n  - String: 'a" + strings.Repeat("\n b", 1<<18) + "'\n...\n"
	var many strings.Builder
	for i := range 1 << 14 {
		fmt.Fprintf(&many, "--- !Missed\nPass: inline\nName: n%d\nFunction: k\n...\n", i)
	}
	for r, text := range map[*kernels.Remarks]string{&old: many.String(), &new: long + many.String()} {
		if err := r.Add("gfx90a", text); err != nil {
			t.Fatal(err)
		}
	}
	d := kernels.Compare([]kernels.Image{image("gfx90a", 1, kernel("k", "scratch=0"))}, []kernels.Image{image("gfx90a", 2, kernel("k", "scratch=4"))})
	d.AddRemarks(&old, &new)
	rest := d.Kernels[0].NewRemarks
	if len(rest) != 1 || rest[0].Text != "a"+strings.Repeat(" b", 1<<18) {
		t.Errorf("got %d new remarks, want the long one", len(rest))
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("comparing took %s, want less than 10 s", took)
	}
}
