package registered

import (
	"errors"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// plainBundle returns a bundle with one entry.
func plainBundle(t testing.TB, body string) []byte {
	return fixture.BundleOf(t, bundle.Options{Align: 8}, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--gfx90a", Content: content.Memory([]byte(body))})
}

// TestCalls finds the record that a constructor passes to the runtime, in a file without sections for it and without
// relocations of its pointer.
func TestCalls(t *testing.T) {
	const bundleAt = 0x600
	record := le.AppendUint32(le.AppendUint32(nil, embedding.MagicHIP), 1)
	record = le.AppendUint64(le.AppendUint64(record, bundleAt), 0)
	l := library{names: []string{string(record)}, other: registerFatBinary}
	data := l.build()
	copy(data[bundleAt:], plainBundle(t, "code"))
	// The test file sets the third argument. The runtime reads the first one.
	if code := Find(content.Memory(data)); len(code.Wrappers) != 0 || code.Fault == nil || !strings.Contains(code.Fault.Error(), registerFatBinary) {
		t.Errorf("another argument: wrappers %v, fault %v, want the fault that no record was found", code.Wrappers, code.Fault)
	}
	copy(data[codeAt:], "\x48\x8d\x3d") // lea rdi, [rip + record]
	code := Find(content.Memory(data))
	if code.Fault != nil || len(code.Wrappers) != 1 || code.Wrappers[0].Addr != namesAt || code.Wrappers[0].Offset != bundleAt {
		t.Fatalf("wrappers %+v, fault %v, want one at 0x%x for the bundle at 0x%x", code.Wrappers, code.Fault, namesAt, bundleAt)
	}
	if len(code.Regions) != 1 || len(code.Regions[0].Bundles) != 1 || code.Regions[0].Start+code.Regions[0].Bundles[0].Offset != bundleAt || code.Regions[0].Alone() {
		t.Errorf("regions %+v, want one bundle at 0x%x among other data", code.Regions, bundleAt)
	}
}

// TestFaults describes registered code that cannot be read.
func TestFaults(t *testing.T) {
	one, two := plainBundle(t, "one"), plainBundle(t, "two")
	good := testelf.Library{Bundles: [][]byte{one, two}, Wrappers: []int{0, 1}}
	broken := good
	broken.Bundles = [][]byte{one, []byte(strings.Repeat("x", len(two)))}
	packed := good.Build()
	copy(packed[64+7*56+4:], "UPX!") // after the program headers
	otherMachine := library{names: []string{"one"}, other: registerFatBinary}.build()
	le.PutUint16(otherMachine[18:], elf.MachineRISCV)
	for name, test := range map[string]struct {
		data    []byte
		wrapper int
		want    string
	}{
		"good":           {good.Build(), 0, ""},
		"no bundle":      {broken.Build(), 1, "wrapper 1: points to address 0x"},
		"packed":         {packed, -1, "packed by UPX"},
		"OpenMP":         {library{names: []string{"one"}, other: "__tgt_register_lib"}.build(), 0, ""},
		"no headers":     {testelf.StripSections(library{names: []string{"one"}, other: "__tgt_register_lib"}.build()), -1, "it calls __tgt_register_lib"},
		"other machine":  {otherMachine, -1, "it calls __hipRegisterFatBinary, and its wrappers cannot be read: ELF machine 243"},
		"no device code": {testelf.Library{}.Build(), 0, ""},
		"text":           {[]byte("text"), 0, ""},
	} {
		code := Find(content.Memory(test.data))
		fault, is := errors.AsType[*Error](code.Fault)
		if is != (test.want != "") || is && (fault.Wrapper != test.wrapper || !strings.Contains(fault.Reason, test.want)) {
			t.Errorf("%s: fault %v, want %q of wrapper %d", name, code.Fault, test.want, test.wrapper)
		}
	}
}

// TestUnreached finds bundles without a wrapper in the section for bundles, and not those that are data.
func TestUnreached(t *testing.T) {
	one, two := plainBundle(t, "one"), plainBundle(t, "two")
	text := append([]byte("text"), two...)
	for name, test := range map[string]struct {
		bundles  [][]byte
		wrappers []int
		section  string
		want     []bool // for each bundle found, whether it is reached
	}{
		"all":              {[][]byte{one, two}, []int{1, 0}, "", []bool{true, true}},
		"the last":         {[][]byte{one, two}, []int{1}, "", []bool{false, true}},
		"the first":        {[][]byte{one, two, two}, []int{0}, "", []bool{true, false, false}},
		"none":             {[][]byte{one, two}, nil, "", []bool{false, false}},
		"text in between":  {[][]byte{one, text, two}, []int{0, 2}, "", []bool{true, true}},
		"other section":    {[][]byte{one, two}, []int{0}, ".foo", []bool{true}},
		"no wrapper there": {[][]byte{one, two}, nil, ".foo", []bool{false, false}},
	} {
		code := Find(content.Memory(testelf.Library{Bundles: test.bundles, Wrappers: test.wrappers, Section: test.section}.Build()))
		var got []bool
		for _, r := range code.Regions {
			for _, b := range r.Bundles {
				got = append(got, b.Reached)
			}
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
	}
}

// TestDamage reads files with a wrong byte.
func TestDamage(t *testing.T) {
	one := plainBundle(t, "one")
	whole := testelf.Library{Bundles: [][]byte{one, one}, Wrappers: []int{1, 0}, Kernels: []string{"one"}}.Build()
	for at := range whole {
		whole[at] ^= 0xff
		Find(content.Memory(whole))
		_, _, _ = Kernels(content.Memory(whole))
		whole[at] ^= 0xff
	}
}

// FuzzFind reads any bytes. All bundles are inside of their regions.
func FuzzFind(f *testing.F) {
	one := plainBundle(f, "one")
	data := testelf.Library{Bundles: [][]byte{one, one}, Wrappers: []int{1, 0}, Kernels: []string{"one"}}.Build()
	f.Add(data)
	f.Add(testelf.StripSections(data))
	f.Add(testelf.MergeSections(data, ".rodata", ".hip_fatbin"))
	f.Add(testelf.Library{Bundles: [][]byte{one}, Wrappers: []int{0}, Exec: true, Section: ".foo"}.Build())
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range Find(content.Memory(data)).Regions {
			r.Alone()
			for i, b := range r.Bundles {
				if b.Offset < 0 || b.Offset >= r.End(i) || r.End(i) > r.Content.Len() || r.Start < 0 || r.Start > int64(len(data)) {
					t.Errorf("section %q: bundle %d is at 0x%x to 0x%x", r.Name, i, b.Offset, r.End(i))
				}
			}
		}
	})
}
